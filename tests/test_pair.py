"""The first picture of a report: one of the best models, and the lowest of the same setting."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from families import small_runs
from sober.errors import RequestError
from sober.methods.settings import setting
from sober.report.seed_pair_pictures import pair_html
from sober.results import as_runs
from sober.results.latent_names import factors_of_latents, row_names
from sober.results.seed_pair import NEAR, best_and_worst_seed, seed_pair
from sober.results.showcase_files import load_showcase, save_showcase, showcase_path
from sober.results.store import Store
from sober.types import Score


def test_it_is_the_setting_whose_seeds_differ_most_among_those_with_a_good_model() -> None:
    numbers = {"a0": 0.90, "a1": 0.89, "b0": 0.85, "b1": 0.30, "b2": 0.40, "c0": 0.70, "c1": 0.0}
    settings = {run: run[0] for run in numbers}
    assert best_and_worst_seed(numbers, settings) == ("b0", "b1")
    assert best_and_worst_seed(numbers | {"b0": 0.80}, settings) == ("a0", "a1")
    assert best_and_worst_seed({"a0": 0.9, "c0": 0.1}, settings) == ("a0",)
    assert best_and_worst_seed({}, {}) == ()


@given(st.dictionaries(st.text("abc", min_size=2, max_size=4), st.floats(-10, 10), min_size=1, max_size=12))
def test_the_first_is_nearly_the_best_and_the_second_its_lowest_sibling(numbers: dict[str, float]) -> None:
    settings = {run: run[0] for run in numbers}
    best, *others = best_and_worst_seed(numbers, settings)
    most, least = max(numbers.values()), min(numbers.values())
    assert numbers[best] >= most - NEAR * (most - least) - 1e-12
    alike = [number for run, number in numbers.items() if settings[run] == settings[best]]
    assert numbers[best] == max(alike)
    assert len(others) == (len(alike) > 1)
    for other in others:
        assert numbers[other] == min(alike)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Scores of two settings with two seeds each, and of two runs something to show."""
    runs = small_runs(sweep={"beta": [1, 4]}, seeds=2)
    store = Store.create(tmp_path)
    values = (0.8, 0.2, 0.5, 0.5)
    rows = [Score(run.identity, "mig", value, preset="study", supervised=True)
            for run, value in zip(runs, values, strict=True)]  # fmt: skip
    store.write(rows, {run.identity: run for run in runs}, in_words=setting)
    for run in runs[:2]:
        save_showcase(showcase_path(tmp_path, run.identity), arrays(), about(run.identity, run.seed))
    return tmp_path


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "pictures": rng.integers(0, 256, (12, 8, 6, 1), np.uint8),
        "traversals": rng.integers(0, 256, (3, 11, 8, 6, 3), np.uint8),
        "kl": np.array([0.5, 2.0, 0.0]),
        "mi.matrix": np.array([[0.9, 0.6], [0.0, 1.0], [0.0, 0.0]]),
    }


def about(run: str, seed: int) -> dict[str, object]:
    factors = [{"name": name, "kind": "ordinal", "values": ["0", "1"]} for name in ("size", "place <x>")]
    return {"run": run, "setting": "beta_vae", "world": "blocks", "seed": seed, "factors": factors}


def test_rows_are_latents_that_carry_something_the_most_first_with_the_factors_they_tell_of(folder: Path) -> None:
    runs = as_runs(Store.open(folder).table())
    assert len(seed_pair(runs)) == 2
    html = pair_html(folder, runs)
    assert html.count("<figure") == 2
    assert html.count("<img") == 4  # the third latent carries nothing
    assert html.index("latent 1,") < html.index("latent 0,")
    assert "size + place &lt;x&gt;" in html
    assert html.index("mig 0.8") < html.index("mig 0.2")
    assert "Two seeds of" in html
    showcase_path(folder, seed_pair(runs)[1]).unlink()
    html = pair_html(folder, runs)
    assert html.count("<figure") == 1
    assert "One of the best models" in html


def test_without_anything_to_show_there_is_no_picture(folder: Path) -> None:
    runs = as_runs(Store.open(folder).table())
    for path in (folder / "shown").iterdir():
        path.unlink()
    assert pair_html(folder, runs) == ""


def test_pictures_are_kept_small_and_come_back_as_they_were(tmp_path: Path) -> None:
    whole = arrays() | {"traversals": np.tile(np.arange(64, dtype=np.uint8)[:, None], (10, 11, 1, 64, 1))[..., None, :]
                        .reshape(10, 11, 64, 64, 1)}  # fmt: skip
    path = tmp_path / "shown.safetensors"
    save_showcase(path, whole, {"run": "x"})
    assert path.stat().st_size < whole["traversals"].nbytes / 20
    back, _ = load_showcase(path)
    assert back.keys() == whole.keys()
    for name, array in whole.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)


def test_pictures_that_are_not_what_they_should_be_are_refused(tmp_path: Path) -> None:
    from sober.files import load_arrays, save_arrays  # noqa: PLC0415

    path = tmp_path / "shown.safetensors"
    save_showcase(path, arrays(), {"run": "x"})
    kept, metadata = load_arrays(path)
    for other in (kept["pictures"][:200], np.zeros(10, np.uint8), kept["traversals"]):
        save_arrays(path, kept | {"pictures": other}, metadata)
        with pytest.raises(RequestError, match="has pictures that cannot be read"):
            load_showcase(path)


def test_a_latent_is_named_after_what_it_tells_of_unless_it_is_quiet() -> None:
    matrix = np.array([[2.0, 0.0, 0.0], [0.1, 0.4, 0.3], [0.0, 0.05, 0.0], [1.9, 0.0, 0.0]])
    kept = {"kl": np.array([4.0, 1.0, 1.0, 0.05]), "mi.matrix": matrix}
    about = {"factors": [{"name": name} for name in ("hue", "size", "shape")]}
    assert factors_of_latents(kept, about) == ["hue", "size + shape", "", ""]
    assert row_names(kept, about) == ["hue", "size + shape", "hardly anything", "hardly anything"]
    assert row_names({"kl": kept["kl"]}, about)[1] == "latent 1"
