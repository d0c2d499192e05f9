"""`sober.agree` beyond single latents: traps, subspaces, splits and merges, sizes, and the consensus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import load_file

import sober
from sober.agreement.analysis import analyse
from sober.agreement.consensus import Consensus
from sober.agreement.planted import Planted, PlantedModel, planted, planted_model
from sober.agreement.sizes import largest_that_pays
from sober.agreement.subspaces import canonical_correlations
from sober.errors import RequestError
from sober.files import save_arrays
from sober.files.dictionaries import read_dictionary

ROWS = 1_500


def sources(width: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).laplace(size=(ROWS, width))


def noisy(codes: np.ndarray, seed: int, noise: float = 0.1) -> np.ndarray:
    return codes + noise * np.random.default_rng([seed, 9]).standard_normal(codes.shape)


# Traps.


def flags_of(codes, model: int = 0, **settings) -> list[list[str]]:
    agreement = sober.agree(codes, draws=128, **settings)
    return agreement.table().filter(pl.col("model") == f"model {model}")["flags"].to_list()


def test_a_constant_latent_takes_no_part() -> None:
    codes = [noisy(sources(), seed) for seed in range(3)]
    for table, value in zip(codes, (0.0, 1.0, 0.1), strict=True):
        table[:, 5] = value
    agreement = sober.agree(codes)
    row = agreement.table().row(5, named=True)
    assert row["flags"] == ["constant"]
    assert (row["recurrence"], row["recurs"], row["q"], row["group"]) == (0, False, 1, None)
    assert agreement.ranking["live"].to_list() == [5, 5, 5]
    assert "3 latents of 18 took no part" in agreement.findings[-1]


def test_a_collapsed_model_breaks_nothing() -> None:
    codes = [noisy(sources(), seed) for seed in range(3)] + [np.ones((ROWS, 6))]
    agreement = sober.agree(codes)
    assert agreement.table().filter(pl.col("model") != "model 3")["recurrence"].to_numpy() == pytest.approx(2 / 3)
    last = agreement.ranking.row(3, named=True)
    assert (last["model"], last["recurrence"], last["udr"]) == ("model 3", 0, 0)
    assert any("model 3 may be hardly trained (only 0 of its 6 latents live)" in text for text in agreement.findings)


def test_latents_without_information_take_no_part() -> None:
    codes = [noisy(sources(), seed) for seed in range(3)]
    logvar = np.zeros((ROWS, 6))
    logvar[:, :5] = -4.0
    for table in codes:
        table[:, 5] *= 1e-3
    known = [sober.Codes(table, logvar, np.zeros((ROWS, 0), int), ()) for table in codes]
    assert flags_of(known)[5] == ["uninformative"]


@pytest.mark.parametrize("scale", [1.0, -3.0])
def test_duplicates_are_named(scale) -> None:
    codes = [noisy(sources(), seed) for seed in range(3)]
    codes[0] = np.column_stack([codes[0], scale * codes[0][:, 2]])
    listed = flags_of(codes)
    assert [number for number, names in enumerate(listed) if "duplicate" in names] == [2, 6]
    assert "tie" in flags_of(codes, model=1)[2]


def test_what_every_row_has_is_trivial() -> None:
    rng = np.random.default_rng(1)
    codes = []
    for seed in range(3):
        table = rng.standard_normal((ROWS, 30)) * rng.gamma(1, 1, ROWS)[:, None] if not seed else noisy(codes[0], seed)
        codes.append(table)
    codes = [np.column_stack([table, np.linalg.norm(table / table.std(axis=0), axis=1)]) for table in codes]
    listed = flags_of(codes)
    assert [number for number, names in enumerate(listed) if "trivial" in names] == [30]


def test_heavy_tails_rest_on_few_rows() -> None:
    """Two latents that share one extreme row correlate, and ranks do not."""
    codes = [np.random.default_rng(seed).standard_normal((ROWS, 4)) for seed in range(3)]
    for table in codes:
        table[7, 0] = 1e4
    table = sober.agree(codes, draws=128).table()
    assert table["similarity"][0] > 0.99
    assert table["flags"][0].to_list() == ["few_rows"]
    assert sober.agree(codes, similarity="spearman", draws=128).table()["similarity"][0] < 0.2


def test_models_that_hardly_learned_are_said_to_be_so() -> None:
    truth = planted(rows=800)
    models = [planted_model(truth, learned=0.05 if seed == 0 else 0.9, junk=0, seed=seed) for seed in range(3)]
    agreement = sober.agree(
        [model.codes for model in models], [model.directions for model in models], inputs=truth.inputs
    )
    explained = dict(zip(agreement.ranking["model"], agreement.ranking["explained"], strict=True))
    assert explained["model 0"] < 0.5 < explained["model 1"]
    assert any(text.startswith("model 0 may be hardly trained (it explains") for text in agreement.findings)


def test_inputs_of_other_rows_are_refused() -> None:
    truth = planted(rows=100)
    models = [planted_model(truth, seed=seed) for seed in range(2)]
    codes, directions = [model.codes for model in models], [model.directions for model in models]
    with pytest.raises(RequestError, match="give the rows that were encoded"):
        analyse(codes, directions, inputs=truth.inputs[:50], draws=9)
    with pytest.raises(RequestError, match="codes and dictionaries together"):
        analyse(codes, inputs=truth.inputs, draws=9)


# Subspaces, splits, merges.


def rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_a_rotated_pair_is_a_subspace() -> None:
    codes = []
    for model in range(4):
        table = sources(8)
        table[:, :2] = table[:, :2] @ rotation(model * np.pi / 4)
        codes.append(noisy(table, model))
    blocks = sober.agree(codes).subspaces
    assert blocks.height == 4  # turned by one eighth or three eighths, and not by a quarter
    for block in blocks.iter_rows(named=True):
        assert (block["kind"], block["latents"], block["other_latents"]) == ("subspace", [0, 1], [0, 1])
        assert block["together"] > 0.95
        assert block["alone"] < 0.6
        assert block["p"] < 0.02


def test_a_split_and_a_merge_are_named() -> None:
    base = sources(8)
    split = np.column_stack([np.maximum(base[:, 0], 0), np.minimum(base[:, 0], 0), base[:, 1:]])
    blocks = sober.agree({"one": noisy(base, 0), "two": noisy(split, 1), "three": noisy(base, 2)}).subspaces
    kinds = {
        (row["model"], row["other"]): (row["kind"], row["latents"], row["other_latents"]) for row in blocks.to_dicts()
    }
    assert kinds == {("one", "two"): ("split", [0], [0, 1]), ("two", "three"): ("merge", [0, 1], [0])}


def test_the_whole_space_is_no_subspace_beyond_chance() -> None:
    rng = np.random.default_rng(3)
    codes = [sources(4) @ np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(3)]
    blocks = sober.agree(codes).subspaces
    assert all(p == 1 for p in blocks.filter(pl.col("latents").list.len() == 4)["p"])


def test_canonical_correlations_are_the_cosines_of_angles() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((50, 2)), rng.standard_normal((50, 3))
    qa, qb = np.linalg.qr(a)[0], np.linalg.qr(b)[0]
    expected = np.linalg.svd(qa.T @ qb, compute_uv=False)
    assert canonical_correlations(a.T @ a, b.T @ b, a.T @ b)[:2] == pytest.approx(expected)


# Sizes.


def test_sizes_pay_up_to_the_number_of_sources() -> None:
    codes = []
    for size in (4, 8, 16):
        for seed in range(3):
            rng = np.random.default_rng([size, seed])
            shared = noisy(sources(8), 10 * size + seed)[:, : min(size, 8)]
            codes.append(np.column_stack([shared, rng.standard_normal((ROWS, max(0, size - 8)))]))
    table = sober.agree(codes).sizes
    assert table["latents"].to_list() == [4, 8, 16]
    assert table["pays"].to_list() == [True, True, False]
    assert largest_that_pays(table) == 8
    assert table["recurring"].to_list() == pytest.approx([4, 8, 8], abs=1.0)


# Consensus.


@pytest.fixture(scope="module")
def truth() -> Planted:
    return planted()


@pytest.fixture(scope="module")
def models(truth: Planted) -> list[PlantedModel]:
    return [planted_model(truth, seed=seed) for seed in range(5)]


def test_the_consensus_is_nearer_to_the_truth_than_a_model(truth, models, tmp_path: Path) -> None:
    agreement = sober.agree([model.codes for model in models], [model.directions for model in models])
    consensus = agreement.consensus
    first = (consensus.latent >= 0).argmax(axis=1)
    true = np.array([models[m].truth[consensus.latent[k, m]] for k, m in enumerate(first)])
    assert (true >= 0).all()
    nearness = np.sum(consensus.dictionary.directions * truth.directions[true], axis=1)
    one = [models[m].directions[consensus.latent[k, m]] for k, m in enumerate(first)]
    single = [row @ truth.directions[t] / np.linalg.norm(row) for row, t in zip(one, true, strict=True)]
    assert nearness.mean() > np.mean(single) + 0.02
    agreement.save(tmp_path)
    saved = read_dictionary(tmp_path / "consensus")
    assert saved.directions == pytest.approx(consensus.dictionary.directions, abs=1e-6)
    loaded = Consensus.load(tmp_path)
    assert loaded.dictionary.directions == pytest.approx(consensus.dictionary.directions, abs=1e-6)
    codes = {"model 3": models[3].codes}
    assert loaded.encode(codes) == pytest.approx(consensus.encode(codes), abs=1e-4)


def test_consensus_codes_are_a_linear_map_that_is_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    codes = {}
    for seed in range(4):
        order, signs = rng.permutation(6), rng.choice([-1.0, 1.0], 6)
        codes[f"seed {seed}"] = noisy(sources(), seed, 0.4)[:, order] * signs * 10.0**seed
    agreement = sober.agree(codes, out=tmp_path)
    consensus = agreement.consensus
    assert len(consensus) == 6
    values = consensus.encode(codes)
    best = np.abs(np.corrcoef(values.T, sources().T)[:6, 6:]).max(axis=1)
    single = np.abs(np.corrcoef(codes["seed 0"].T, sources().T)[:6, 6:]).max(axis=1)
    assert best.min() > single.max()
    saved = load_file(tmp_path / "consensus.safetensors")
    side_by_side = np.concatenate(list(codes.values()), axis=1)
    assert side_by_side @ saved["map"] + saved["offset"] == pytest.approx(values, abs=1e-3)
    assert np.corrcoef(consensus.encode({"seed 2": codes["seed 2"]}).T, values.T)[0, 6] > 0.9
    with pytest.raises(RequestError, match="knows no model 'seed 9'"):
        consensus.encode({"seed 9": codes["seed 2"]})
    with pytest.raises(RequestError, match=r"codes of 'seed 2' must be \(N, 6\), got"):
        consensus.encode({"seed 2": codes["seed 2"][:, :4]})
    with pytest.raises(RequestError, match="the same rows"):
        consensus.encode({"seed 1": codes["seed 1"][:30], "seed 2": codes["seed 2"]})
    loaded = Consensus.load(tmp_path / "consensus.safetensors")
    assert loaded.models == tuple(codes)
    assert loaded.encode({name: pl.DataFrame(array) for name, array in codes.items()}) == pytest.approx(
        values, abs=1e-3
    )


def test_a_file_that_is_no_consensus_is_refused_in_one_line(tmp_path: Path) -> None:
    save_arrays(tmp_path / "other.safetensors", {"a": np.zeros(3)}, {})
    for path in (tmp_path / "other.safetensors", tmp_path / "none.safetensors", tmp_path):
        with pytest.raises(RequestError, match=r"^[^\n]+$"):
            Consensus.load(path)


def test_without_what_recurs_the_consensus_is_empty(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    agreement = sober.agree([rng.standard_normal((ROWS, 5)) for _ in range(3)], out=tmp_path)
    assert len(agreement.consensus) == 0
    assert agreement.subspaces.height == agreement.components.height == 0
    assert load_file(tmp_path / "consensus.safetensors")["latent"].shape == (0, 3)
