"""What metrics, criteria and tasks have in common: settings, and lookup by name."""

from __future__ import annotations

import re

import pytest

from sober.contracts import configured, find
from sober.errors import FEW, RequestError, UnknownError, choices, nearest, unknown

REGISTRY = {"mig": 1, "rmig": 2, "dci": 3}


def test_a_name_is_found() -> None:
    assert find("metric", REGISTRY, "rmig") == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mug", "unknown metric 'mug': did you mean 'mig'?"),
        ("migs", "unknown metric 'migs': did you mean 'mig'?"),
        ("nothing", "unknown metric 'nothing': choose one of dci, mig, rmig"),
    ],
)
def test_an_unknown_name_is_refused_with_the_names_most_like_it(name: str, message: str) -> None:
    with pytest.raises(UnknownError, match=f"^{re.escape(message)}$"):
        find("metric", REGISTRY, name)


def test_a_long_registry_is_not_listed_in_full() -> None:
    names = [f"{number:04}" for number in range(FEW + 60)]
    assert str(unknown("score", names, "dci")).endswith(f"{FEW - 1:04} and 60 more")
    assert str(unknown("score", names, "dci", "`sober metrics` lists them")).endswith(
        "'dci': `sober metrics` lists them"
    )
    assert str(unknown("score", [], "dci")).endswith("it has none")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("β-VAE", ["beta_vae"]),
        ("BetaTCVAE", ["beta_tcvae"]),
        ("tcvae", ["beta_tcvae"]),
        ("beta", ["beta_vae", "beta_tcvae"]),
        ("dipvae", ["dip_vae_i", "dip_vae_ii"]),
        ("Dava", ["dava"]),
        ("dva", ["dava"]),
        ("dava_method", ["dava"]),
        ("nothing", []),
        ("a", []),
    ],
)
def test_a_name_that_is_written_otherwise_or_in_part_is_found(name: str, meant: list[str]) -> None:
    assert nearest(name, ["vae", "beta_vae", "beta_tcvae", "dip_vae_i", "dip_vae_ii", "dava", "info_gan"]) == meant


def test_swapped_letters_come_first() -> None:
    assert nearest("mgi", ["mi", "mig", "gbt", "sap"])[0] == "mig"


def test_at_most_three_names_are_suggested() -> None:
    assert choices("score", [f"score_{number}" for number in range(9)]).count("'") == 6


def test_changes_come_after_presets_and_presets_after_defaults() -> None:
    settings = {"bins": 20, "over": "factor", "samples": 100}
    assert configured("mig", settings, {"bins": 50}, {"few": {"bins": 30, "samples": 10}}, "few") == {
        "bins": 50,
        "over": "factor",
        "samples": 10,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bin": 50}, "mig has no setting 'bin': did you mean 'bins'?"),
        ({"bins": "many"}, "mig: bins must be a number, such as 20, not 'many'"),
        ({"over": 3.0}, "mig: over must be a word, such as factor, not 3.0"),
    ],
)
def test_wrong_changes_are_refused(changes: dict[str, float | str], message: str) -> None:
    with pytest.raises(RequestError, match=f"^{re.escape(message)}$"):
        configured("mig", {"bins": 20, "over": "factor"}, changes)
