"""`sober.agree`: which latents recur among models, against chance, from codes in memory and in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import scipy.stats

import sober
from sober.agreement import matching, partners
from sober.agreement.analysis import analyse
from sober.agreement.ranking import udr_scores
from sober.agreement.recurrence import benjamini_hochberg, interval
from sober.cli.main import main
from sober.criteria.udr import udr
from sober.errors import RequestError
from sober.types import Codes

ROWS = 400


def families(models: int = 4, shared: int = 4, private: int = 2, seed: int = 0) -> dict[str, np.ndarray]:
    """Models that hold the same heavy-tailed sources in another order, sign and scale, and private noise."""
    rng = np.random.default_rng(seed)
    sources = rng.laplace(size=(ROWS, shared))
    codes = {}
    for model in range(models):
        order, scale = rng.permutation(shared), rng.choice([-1, 1], shared) * 10.0 ** rng.integers(-3, 3, shared)
        own = rng.standard_normal((ROWS, private))
        codes[f"seed {model}"] = np.concatenate(
            [(sources + 0.2 * rng.standard_normal(sources.shape))[:, order] * scale, own], 1
        )
    return codes


def independent(models: int, latents: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((ROWS, latents)) for _ in range(models)]


def test_shared_latents_recur_and_private_ones_do_not() -> None:
    agreement = sober.agree(families())
    table = agreement.table()
    shared = table.filter(pl.col("latent") < 4)
    private = table.filter(pl.col("latent") >= 4)
    assert shared["recurs"].all()
    assert (shared["recurrence"] == 1).all()
    assert (shared["q"] < 0.05).all()
    assert not private["recurs"].any()
    assert (private["recurrence"] == 0).all()
    assert agreement.components["models"].to_list() == [4, 4, 4, 4]
    assert agreement.components["recurring"].to_list() == [4, 4, 4, 4]


def test_a_component_holds_the_latents_that_are_the_same_source() -> None:
    codes = families()
    for members in sober.agree(codes).components["members"].to_list():
        columns = np.stack([codes[member["model"]][:, member["latent"]] for member in members])
        assert np.abs(np.corrcoef(columns)).min() > 0.9


def test_the_table_has_a_row_for_each_latent_with_its_partners() -> None:
    codes = families(3)
    table = sober.agree(codes).table()
    assert table.height == 18
    row = table.row(0, named=True)
    expected = [np.abs(np.corrcoef(codes["seed 0"][:, 0], codes[other].T)[0, 1:]) for other in ("seed 1", "seed 2")]
    assert row["partners"] == [int(line.argmax()) for line in expected]
    assert np.abs(row["partner_similarity"]) == pytest.approx([line.max() for line in expected], abs=1e-6)
    assert row["similarity"] == pytest.approx(np.mean([line.max() for line in expected]), abs=1e-6)
    shares = table.group_by("model").agg(pl.col("variance_share").sum())["variance_share"]
    assert shares.to_list() == pytest.approx([1, 1, 1])


def test_signs_scales_and_order_of_latents_change_nothing() -> None:
    codes = families()
    changed = {name: -7 * array[:, ::-1] for name, array in codes.items()}
    first, second = sober.agree(codes).table(), sober.agree(changed).table()
    assert (
        first["recurrence"].to_list()
        == second.sort("model", "latent", descending=[False, True])["recurrence"].to_list()
    )


@pytest.mark.parametrize("similarity", ["lasso", "spearman"])
def test_udr_is_a_special_case_with_the_same_numbers(similarity) -> None:
    codes = [array / array.std(axis=0) for array in families(4).values()]
    ranking = sober.agree(codes, similarity=similarity, draws=64).ranking
    scores = dict(zip(ranking["model"], ranking["udr"], strict=True))
    expected = sober.udr(codes, similarity=similarity)
    assert [scores[f"model {number}"] for number in range(4)] == pytest.approx(expected.tolist(), abs=1e-6)


def test_udr_of_the_public_implementation_is_a_special_case() -> None:
    codes = [array / array.std(axis=0) for array in families(3).values()]
    analysis = analyse(codes, similarity="spearman", draws=64)
    unlabelled = [Codes(array, None, np.zeros((ROWS, 0)), ()) for array in codes]
    expected = udr(unlabelled, similarity="spearman", preset="reference").scores
    assert udr_scores(analysis.partners, analysis.alive, separate=True) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("panel", [1, 7, 2_048])
def test_the_best_partners_are_those_of_the_whole_table(signed, panel, monkeypatch) -> None:
    monkeypatch.setattr(partners, "PANEL", panel)
    monkeypatch.setattr(partners, "BLOCK", 200)
    codes = independent(3, 9, seed=1)
    result = analyse(codes, signed=signed, draws=64).partners
    whole = np.corrcoef(np.concatenate(codes, axis=1).T)
    for feature in range(27):
        for model in {0, 1, 2} - {feature // 9}:
            line = whole[feature, 9 * model : 9 * model + 9]
            strength = np.maximum(line, 0) if signed else np.abs(line)
            best = np.argsort(-strength)[: partners.KEPT]
            assert result.similarity[feature, model] == pytest.approx(
                np.where(strength[best] > 0, line[best], 0), abs=1e-6
            )
            assert result.total[feature, model] == pytest.approx(strength.sum(), abs=1e-5)


@pytest.mark.parametrize("similarity", ["pearson", "spearman"])
def test_sparse_and_mapped_codes_give_the_numbers_of_dense_ones(similarity, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    base = scipy.sparse.random_array((ROWS, 30), density=0.1, rng=rng).toarray()
    dense = [base * (rng.random(base.shape) < 0.9) for _ in range(3)]
    expected = sober.agree(dense, similarity=similarity, draws=64).table()
    sparse = [scipy.sparse.csr_array(codes) for codes in dense]
    mapped = []
    for number, codes in enumerate(dense):
        np.save(tmp_path / f"{number}.npy", codes)
        mapped.append(np.load(tmp_path / f"{number}.npy", mmap_mode="r"))
    for codes in (sparse, mapped, [dense[0], sparse[1], mapped[2]]):
        table = sober.agree(codes, similarity=similarity, draws=64).table()
        assert table["similarity"].to_list() == pytest.approx(expected["similarity"].to_list(), abs=1e-5)
        assert table["firing_rate"].to_list() == pytest.approx(expected["firing_rate"].to_list())


@pytest.mark.parametrize("sparse", [False, True])
def test_two_measures_give_the_weaker_one_where_signs_agree(sparse) -> None:
    rng = np.random.default_rng(0)
    codes = [rng.standard_normal((60, 7)) * (rng.random((60, 7)) < 0.5) for _ in range(2)]
    directions = [rng.standard_normal((7, 5)) for _ in range(2)]
    unit = [table / np.linalg.norm(table, axis=1, keepdims=True) for table in directions]
    cosine, correlation = unit[0] @ unit[1].T, np.corrcoef(*codes, rowvar=False)[:7, 7:]
    weaker = np.sign(cosine) * np.minimum(np.abs(cosine), np.abs(correlation))
    weaker[np.sign(cosine) != np.sign(correlation)] = 0
    given = [scipy.sparse.csr_array(table) for table in codes] if sparse else codes
    result = analyse(given, directions, signed=False, draws=64).partners
    assert np.abs(weaker).max(axis=1) == pytest.approx(result.best[:7, 1], abs=1e-6)
    assert np.abs(weaker).max(axis=0) == pytest.approx(result.best[7:, 0], abs=1e-6)


def test_latents_of_independent_models_have_uniform_p() -> None:
    """Each kind of chance alone is exact: p is uniform over many draws."""
    p_by_kind: dict[str, list[float]] = {"shuffled": [], "rotated": []}
    for seed in range(8):
        result = analyse(independent(4, 6, seed), draws=1_000).recurrence
        for kind, p in result.p_by_kind.items():
            p_by_kind[kind] += p.tolist()
        assert not result.recurs.any()
    for p in p_by_kind.values():
        assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def test_rotations_of_one_space_do_not_recur() -> None:
    """All models hold the same information, along axes that mean nothing: shuffles would call that recurring."""
    rng = np.random.default_rng(3)
    sources = rng.standard_normal((ROWS, 8))
    codes = [sources @ np.linalg.qr(rng.standard_normal((8, 8)))[0] for _ in range(5)]
    result = analyse(codes).recurrence
    assert (result.p_by_kind["shuffled"] < 0.01).mean() > 0.9
    assert not result.recurs.any()


def test_untrained_models_are_a_kind_of_chance() -> None:
    codes = families()
    agreement = sober.agree(codes, untrained=list(families().values())[:2])
    assert not agreement.table()["recurs"].any()  # "untrained" models that hold the sources are hard to beat
    assert agreement.analysis.chances[-1].kind == "untrained"


def test_untrained_features_are_compared_in_the_same_number_of_models() -> None:
    """With two models, a feature has one partner: the mean of an untrained feature's two partners varies less."""
    small = []
    for seed in range(40):
        untrained = [np.random.default_rng([seed, 1]).standard_normal((100, 40)) for _ in range(2)]
        codes = [array[:100] for array in independent(2, 12, seed)]
        small.append(analyse(codes, untrained=untrained, draws=64).recurrence.p_by_kind["untrained"] <= 0.05)
    assert scipy.stats.binomtest(int(np.sum(small)), np.size(small), 0.05, alternative="greater").pvalue > 1e-3


def test_a_name_that_is_no_text_can_be_written(tmp_path: Path) -> None:
    codes = dict(zip(["caf\udce9", "b", "c"], families().values(), strict=False))
    agreement = sober.agree(codes, out=tmp_path / "out")
    assert "caf\\udce9" in agreement.ranking["model"].to_list()


def test_untrained_models_are_compared_on_the_same_random_rows() -> None:
    codes = families()
    rng = np.random.default_rng(0)
    untrained = [rng.standard_normal((len(codes["seed 0"]), 200))]
    analysis = analyse(codes, rows=300, untrained=untrained)
    assert analysis.chances[-1].kind == "untrained"
    assert analysis.recurrence.recurs.sum() == 16


def test_too_few_features_of_chance_are_said_to_be_so() -> None:
    codes = families()
    untrained = [np.random.default_rng(0).standard_normal((len(codes["seed 0"]), 5))]
    agreement = sober.agree(codes, untrained=untrained)
    assert not agreement.analysis.recurrence.recurs.any()
    sentence = "5 untrained features are too few for q to reach 0.05, which takes 29: give more untrained models."
    assert sentence in agreement.findings
    assert not any("too few" in sentence for sentence in sober.agree(codes).findings)


def named_frames() -> dict[str, pd.DataFrame]:
    """Codes in frames that name their rows; the last one has its rows in another order."""
    codes = families()
    cells = [f"cell {row}" for row in range(len(codes["seed 0"]))]
    frames = {name: pd.DataFrame(array, index=cells) for name, array in codes.items()}
    last = list(frames)[-1]
    return {**frames, last: frames[last].sample(frac=1, random_state=0)}


def test_rows_with_names_are_brought_into_one_order(tmp_path: Path, capsys) -> None:
    expected = sober.agree(families()).table()
    frames = named_frames()
    assert sober.agree(frames).table().equals(expected)
    for number, frame in enumerate(frames.values()):
        frame.rename_axis("cell").rename(columns=str).to_csv(tmp_path / f"a{number}.csv")
        frame.rename(columns=str).to_parquet(tmp_path / f"b{number}.parquet")
        frame.rename(columns=str).to_csv(tmp_path / f"c{number}.csv")
    for kind in "abc":
        files = [str(path) for path in sorted(tmp_path.glob(f"{kind}*"))]
        main(["agree", *files, "--json"])
        printed = capsys.readouterr()
        assert "its rows are put in the order of the other files" in printed.err
        assert len(json.loads(printed.out)["components"]) == 4, kind


def test_rows_of_other_names_are_refused() -> None:
    frames = named_frames()
    name = list(frames)[-1]
    other = frames[name].rename(index={"cell 7": "cell x"})
    with pytest.raises(RequestError, match="1 row of model 'seed 3', such as 'cell x', are not in 'seed 0'"):
        sober.agree({**frames, name: other})
    twice = frames[name].rename(index={"cell 7": "cell 8"})
    with pytest.raises(RequestError, match="two rows of model 'seed 3' have the same name"):
        sober.agree({**frames, name: twice})


def test_one_to_one_gives_each_latent_a_partner_of_its_own() -> None:
    codes = families(3)
    codes["seed 1"] = np.concatenate([codes["seed 1"][:, :1], codes["seed 1"][:, :1] + 1e-3, codes["seed 1"]], axis=1)
    table = sober.agree(codes, matching="one-to-one").table()
    for model in ("seed 0", "seed 2"):
        matched = [row[0 if model == "seed 2" else 1] for row in table.filter(pl.col("model") == "seed 1")["partners"]]
        real = [partner for partner in matched if partner >= 0]
        assert len(real) == len(set(real)) == 6


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_on_what_few_partners_lose_holds(seed) -> None:
    rng = np.random.default_rng(seed)
    table = rng.random((40, 40)) ** 4
    best = np.argsort(-table, axis=1)[:, :3].astype(np.int32)
    rows, columns, values, lost = matching.best_of_few(best, np.take_along_axis(table, best, axis=1), 40, True)
    exact = table[scipy.optimize.linear_sum_assignment(table, maximize=True)].sum() / 40
    assert len(set(columns.tolist())) == len(columns) == len(rows)
    assert table[rows, columns] == pytest.approx(values)
    assert values.sum() / 40 <= exact <= values.sum() / 40 + lost
    assert lost < 0.35


def test_intervals_hold_the_share_as_often_as_they_say() -> None:
    rng = np.random.default_rng(4)
    counts = rng.binomial(9, 0.7, 4_000)
    low, high = interval(counts, 9)
    assert ((low <= 0.7) & (high >= 0.7)).mean() >= 0.95
    assert interval(np.array([0, 9]), 9)[0].tolist() == pytest.approx([0, 0.6637], abs=1e-3)


def test_false_discoveries_are_adjusted_as_benjamini_and_hochberg_do() -> None:
    p = np.array([0.03, 0.001, 0.8, 0.01, 0.2])
    assert benjamini_hochberg(p) == pytest.approx(scipy.stats.false_discovery_control(p))
    assert benjamini_hochberg(np.zeros(0)).tolist() == []


def test_a_seed_gives_the_same_numbers_again() -> None:
    codes = families()
    assert sober.agree(codes, seed=5).table().equals(sober.agree(codes, seed=5).table())
    assert not sober.agree(codes, seed=5).table().equals(sober.agree(codes, seed=6).table())


@pytest.mark.parametrize(
    ("codes", "settings", "says"),
    [
        ([np.ones((ROWS, 3))], {}, "at least two, got 1"),
        ([np.ones((ROWS, 3)), np.ones((ROWS + 1, 3))], {}, "encode the same rows"),
        ([np.ones((ROWS, 3)), np.full((ROWS, 3), np.nan)], {}, "'model 1': latent 0 has values that are not finite"),
        (np.ones((ROWS, 3)), {}, "give one for each model"),
        ({1: np.ones((ROWS, 3)), "1": np.ones((ROWS, 3))}, {}, "two models of codes have the same name"),
        ([np.ones((5, 3)), np.ones((5, 3))], {}, "give at least 20"),
        ([np.ones((ROWS, 3)), np.ones(ROWS)], {}, "codes must be numbers"),
        ({"a": np.ones((ROWS, 3)), "b": np.array([["x"] * 3] * ROWS)}, {}, "model 'b': codes must be numbers"),
        (independent(2, 3, 0), {"similarity": "cosine"}, "give dictionaries"),
        (independent(2, 3, 0), {"similarity": "pearsn"}, "did you mean 'pearson'?"),
        (independent(2, 3, 0), {"matching": "all"}, "matching 'all' is not known"),
        (independent(2, 3, 0), {"matching": np.zeros(2)}, "matching array([0., 0.]) is not known"),
        (independent(2, 3, 0), {"similarity": np.zeros(2)}, "similarity array([0., 0.]) is not known"),
        (independent(2, 3, 0), {"least": 0}, "least must be a share above 0 and at most 1, not 0"),
        (independent(2, 3, 0), {"least": "a half"}, "least must be a share above 0"),
        (independent(2, 3, 0), {"level": float("nan")}, "level must be a share above 0"),
        (independent(2, 3, 0), {"level": 1}, "level must be a share above 0 and below 1"),
        (independent(2, 3, 0), {"rows": 0}, "rows must be a whole number from 20 on"),
        (independent(2, 3, 0), {"rows": -5}, "rows must be a whole number from 20 on"),
        (independent(2, 3, 0), {"draws": 0}, "draws must be a whole number from 1"),
        (independent(2, 3, 0), {"draws": 10**20}, "draws must be a whole number from 1"),
        (independent(2, 3, 0), {"seed": -1}, "seed must be a whole number from 0"),
        (independent(2, 3, 0), {"seed": "x"}, "seed must be a whole number from 0"),
        (independent(2, 3, 0), {"untrained": 5}, "untrained must hold one array for each model"),
        (independent(2, 3, 0), {"similarity": "lasso", "matching": "one-to-one"}, "lassos match one to many"),
        (independent(2, 3, 0), {"rows": 5}, "rows must be a whole number from 20 on"),
        (independent(2, 3, 0), {"rows": 30.5}, "rows must be a whole number"),
        (independent(2, 3, 0), {"draws": 0}, "draws must be a whole number from 1 to 1,000,000"),
        (independent(2, 3, 0), {"seed": -1}, "seed must be a whole number"),
        (independent(2, 3, 0), {"signed": "yes"}, "signed must be True or False"),
        (independent(2, 3, 0), {"signed": np.zeros(2)}, "signed must be True or False"),
        (independent(2, 3, 0), {"untrained": np.ones((ROWS, 3))}, "untrained is one array"),
        (["a.npy", "b.npy"], {}, "'model 0' is a path"),
        ([np.ma.masked_less(codes, -2) for codes in independent(2, 3, 0)], {}, "masked value"),
    ],
)
def test_a_wrong_request_is_refused_in_one_line(codes, settings, says) -> None:
    with pytest.raises(RequestError, match=r"^[^\n]+$") as error:
        sober.agree(codes, **settings)
    assert says in str(error.value)


def test_the_command_prints_components_and_models(tmp_path: Path, capsys) -> None:
    for name, codes in families().items():
        np.savez(tmp_path / f"{name.replace(' ', '')}.npz", codes=codes)
    files = [str(path) for path in sorted(tmp_path.glob("*.npz"))]
    with pytest.raises(SystemExit, match="0"):
        _run(["agree", *files, "--out", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert "16 of 24 live latents" in " ".join(printed.split())
    assert "4 of 4" in printed
    table = pl.read_parquet(tmp_path / "out" / "components.parquet")
    assert table["recurs"].sum() == 16
    with pytest.raises(SystemExit, match="0"):
        _run(["agree", *files, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert [component["models"] for component in answer["components"]] == [4, 4, 4, 4]


def _run(arguments: list[str]) -> None:
    main(arguments)
    raise SystemExit(0)


def test_the_command_refuses_files_that_do_not_belong_together(tmp_path: Path, capsys) -> None:
    np.savez(tmp_path / "a.npz", codes=np.ones((30, 2)))
    np.savez(tmp_path / "b.npz", W_dec=np.ones((3, 5)))
    for files in (["a.npz", "a.npz"], ["a.npz", "b.npz"], ["a.npz", "none.npz"]):
        with pytest.raises(SystemExit) as stopped:
            main(["agree", *(str(tmp_path / file) for file in files)])
        assert stopped.value.code == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1, message


def test_agreement_prints_short() -> None:
    agreement = sober.agree(families())
    assert repr(agreement).startswith("Agreement of 4 models: 16 of 24 latents recur beyond chance\nmodel ")
    assert repr(agreement.analysis) == "Analysis(4 models, 16 features recur)"


ROWS_OF_MODELS = [np.random.default_rng(seed).normal(size=(60, 3)) for seed in range(3)]


def test_sparse_codes_have_the_lassos_of_dense_ones() -> None:
    dense = [np.maximum(codes, 0) for codes in ROWS_OF_MODELS]
    sparse = [scipy.sparse.csr_array(codes) for codes in dense]
    tables = [sober.agree(codes, similarity="lasso", draws=20).table() for codes in (dense, sparse)]
    np.testing.assert_allclose(tables[0]["similarity"], tables[1]["similarity"], atol=1e-9)


def test_large_float32_directions_have_lengths() -> None:
    directions = [model.T.astype(np.float32) for model in ROWS_OF_MODELS]
    plain, large = (
        sober.agree(dictionaries=[d * size for d in directions]) for size in (np.float32(1), np.float32(1e37))
    )
    np.testing.assert_allclose(plain.table()["similarity"], large.table()["similarity"], atol=1e-5)
    np.testing.assert_allclose(plain.table()["variance_share"], large.table()["variance_share"], atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"codes": [ROWS_OF_MODELS[0], ROWS_OF_MODELS[1] * 1e200]}, "'model 1': the largest value of latent 0 is .e"),
        ({"codes": [ROWS_OF_MODELS[0], ROWS_OF_MODELS[1] * 1e-200]}, "multiply it by a number"),
        ({"codes": [ROWS_OF_MODELS[0], None]}, "'model 1' has no codes: give every model its own"),
        ({"dictionaries": [np.ma.array(np.ones((3, 4)), mask=np.eye(3, 4))] * 2}, "has 3 masked values"),
    ],
)
def test_models_that_cannot_be_compared_are_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        sober.agree(**arguments)
