"""Every method, hyperparameter, score, criterion and number of a task has a name for people, and no two are equal."""

from __future__ import annotations

import itertools

import pytest

from sober.criteria.registry import CRITERIA, criterion_words
from sober.methods import METHODS
from sober.metrics import METRICS
from sober.setting_words import words_for_people
from sober.tasks import TASKS
from sober.types import Adam, Run


def numbers() -> dict[str, str]:
    """The names for people of all numbers about models, by their own names."""
    scores = [*(metric.scores for metric in METRICS.values()), *(task.scores for task in TASKS.values())]
    titles = {name: meaning.title for meanings in scores for name, meaning in meanings.items()}
    return titles | {criterion.name: criterion.title for criterion in CRITERIA.values()}


def test_every_number_about_models_has_a_name_of_its_own_for_people() -> None:
    titles = numbers()
    assert [name for name, title in titles.items() if not title] == []
    assert [pair for pair in itertools.combinations(titles, 2) if titles[pair[0]] == titles[pair[1]]] == []
    assert [title for title in titles.values() if "_" in title] == []


def test_every_method_and_each_of_its_hyperparameters_has_a_name_of_its_own_for_people() -> None:
    titles = [method.title for method in METHODS.values()]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    for method in METHODS.values():
        hyper_titles = [hyper.title for hyper in method.hyper]
        assert all(hyper_titles), method.name
        assert len(set(hyper_titles)) == len(hyper_titles), method.name


def test_a_setting_in_words_names_what_differs_among_runs_of_a_method() -> None:
    sweep = [Run("blocks", "beta_tcvae", {"beta": beta}, seed=seed) for beta in (2.0, 4.0) for seed in range(2)]
    words = words_for_people([*sweep, Run("blocks", "dava", {})])
    assert [words(run) for run in sweep] == ["β-TCVAE, β = 2"] * 2 + ["β-TCVAE, β = 4"] * 2
    assert words(Run("blocks", "dava", {})) == "DAVA"


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run("blocks", "beta_vae", {"beta": 4.0}), "β-VAE, β = 4"),
        (Run("blocks", "factor_vae", {"gamma": 0.5, "second_batch": True}), "FactorVAE, γ = 0.5"),
        (Run("blocks", "pca", {}), "PCA"),
        (Run("blocks", "somebody's own", {"x": 1.0}), "somebody's own"),
    ],
)
def test_a_single_setting_is_named_by_its_first_hyperparameter(run: Run, expected: str) -> None:
    assert words_for_people([run])(run) == expected


def test_options_of_training_that_differ_are_named() -> None:
    runs = [Run("blocks", "vae", {}, latents=latents, optimiser=Adam(1e-3)) for latents in (6, 10)]
    assert [words_for_people(runs)(run) for run in runs] == ["VAE, latents = 6", "VAE, latents = 10"]
    own = [Run("blocks", "mine", {"some_rate": rate}) for rate in (0.0001, 1 / 3)]
    assert [words_for_people(own)(run) for run in own] == ["mine, some rate = 0.0001", "mine, some rate = 0.333333"]


def test_only_what_differs_is_named_also_where_worlds_nets_steps_or_batch_differ() -> None:
    usual = [
        Run(world, "beta_tcvae", {"beta": beta}, nets=nets, steps=steps, batch=2_048)
        for world, nets, steps in (("blocks", "dense", 8), ("rooms", "conv", 9))
        for beta in (2.0, 4.0, 6.0)
    ]
    alpha = [Run("blocks", "beta_tcvae", {"beta": beta, "alpha": 0.0}, nets="dense", steps=8, batch=2_048)
             for beta in (2.0, 4.0)]  # fmt: skip
    small = Run("rooms", "beta_tcvae", {"beta": 6.0}, nets="conv", steps=9, batch=64)
    words = words_for_people([*usual, *alpha, small])
    assert [words(run) for run in usual] == [f"β-TCVAE, β = {beta}" for beta in (2, 4, 6)] * 2
    assert [words(run) for run in alpha] == ["β-TCVAE, β = 2, α = 0", "β-TCVAE, β = 4, α = 0"]
    assert words(small) == "β-TCVAE, β = 6, batch = 64"


def test_a_strength_that_goes_with_the_world_is_named() -> None:
    runs = [Run(world, "beta_vae", {"beta": beta}) for world, beta in (("blocks", 2.0), ("rooms", 4.0))]
    assert [words_for_people(runs)(run) for run in runs] == ["β-VAE, β = 2", "β-VAE, β = 4"]


def test_a_criterion_with_settings_keeps_them_in_its_words() -> None:
    assert criterion_words("udr") == "UDR"
    assert criterion_words("udr similarity=spearman") == "UDR, similarity = spearman"
    assert criterion_words("somebody's own") == "somebody's own"
