"""`sober.agree` with dictionaries: from arrays and files of several libraries, and against known features."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.optimize
from safetensors.numpy import save_file

import sober
from sober.agreement import matching
from sober.agreement.analysis import analyse
from sober.agreement.consensus import consensus
from sober.agreement.planted import Planted, PlantedModel, planted, planted_model
from sober.cli.main import main
from sober.errors import RequestError
from sober.files.dictionaries import Dictionary, read_dictionary, save_saelens
from sober.requests.model_files import read_models


@pytest.fixture(scope="module")
def truth() -> Planted:
    return planted()


@pytest.fixture(scope="module")
def models(truth: Planted) -> list[PlantedModel]:
    return [planted_model(truth, seed=seed) for seed in range(5)]


def directions(models: list[PlantedModel]) -> dict[str, np.ndarray]:
    return {f"seed {number}": model.directions for number, model in enumerate(models)}


def test_planted_features_fire_as_often_as_they_were_meant_to(truth: Planted) -> None:
    firing = (truth.codes > 0).mean(axis=0)
    roots = truth.parent < 0
    assert firing[roots] == pytest.approx(truth.rates[roots], abs=0.03)
    for child in np.flatnonzero(~roots):
        assert not (truth.codes[truth.codes[:, truth.parent[child]] == 0, child]).any()
    together = np.corrcoef((truth.codes[:, :4] > 0).T)[np.triu_indices(4, 1)]
    assert together.mean() > 0.05


@pytest.mark.parametrize("similarity", ["pearson", "cosine", "both"])
def test_what_recurs_is_what_is_true(models, similarity) -> None:
    codes = None if similarity == "cosine" else {f"seed {number}": model.codes for number, model in enumerate(models)}
    agreement = sober.agree(codes, directions(models), similarity=similarity)
    table = agreement.table()
    true = np.concatenate([model.truth for model in models])
    counts = np.bincount(true[true >= 0], minlength=128)
    recurs, shared = table["recurs"].to_numpy(), (true >= 0) & (counts[true] >= 4)
    assert recurs[true < 0].sum() == 0
    assert recurs[shared].mean() > 0.95
    for members in agreement.components["members"].to_list()[:60]:
        features = {models[int(member["model"][-1])].truth[member["latent"]] for member in members}
        assert len(features) == 1


def test_the_hungarian_loss_and_pw_mcc_are_special_cases(models) -> None:
    """Overcomplete's loss sums 1 - cosine over the best assignment; PW-MCC is the mean of absolute cosines."""
    first, second = models[0].directions, models[1].directions
    cosine = first @ second.T / np.outer(np.linalg.norm(first, axis=1), np.linalg.norm(second, axis=1))
    rows, columns = scipy.optimize.linear_sum_assignment(1 - cosine)
    loss = (1 - cosine)[rows, columns].sum()
    signed = analyse(None, [first, second], matching="one-to-one", signed=True, draws=64)
    assert len(first) * (1 - signed.pair_means()[0, 1]) == pytest.approx(loss, abs=1e-4)
    rows, columns = scipy.optimize.linear_sum_assignment(-np.abs(cosine))
    free = analyse(None, [first, second], matching="one-to-one", draws=64)
    assert free.pair_means()[0, 1] == pytest.approx(np.abs(cosine[rows, columns]).mean(), abs=1e-6)


def test_random_dictionaries_with_a_shared_mean_do_not_recur() -> None:
    """All directions lean one way, so all cosines are high: chance has the same mean and covariance."""
    rng = np.random.default_rng(0)
    lean = 3 * rng.standard_normal(32)
    random = [rng.standard_normal((200, 32)) + lean for _ in range(4)]
    result = analyse(None, random).recurrence
    assert (result.share > 0.5).mean() > 0.9  # by the rule alone, all would recur
    assert not result.recurs.any()


def test_few_partners_are_matched_nearly_as_well_as_all(models, monkeypatch) -> None:
    exact = analyse(None, directions(models), matching="one-to-one", draws=64)
    monkeypatch.setattr(matching, "EXACT", 10)
    few = analyse(None, directions(models), matching="one-to-one", draws=64)
    difference = exact.pair_means() - few.pair_means()
    assert exact.matches.most_lost == 0
    assert 0 <= difference.max() <= few.matches.most_lost < 0.15
    alike = np.abs(exact.matches.similarity) > 0.7
    assert (few.matches.place[alike] == exact.matches.place[alike]).mean() > 0.999


# Files.


def saelens_folder(path: Path, model: PlantedModel) -> Path:
    """A folder as SAELens 6 saves a standard autoencoder."""
    path.mkdir()
    count, space = model.directions.shape
    weights = {
        "W_dec": model.directions,
        "W_enc": model.directions.T,
        "b_enc": np.zeros(count),
        "b_dec": np.zeros(space),
    }
    save_file(
        {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()},
        path / "sae_weights.safetensors",
    )
    (path / "cfg.json").write_text(json.dumps({"architecture": "standard", "d_in": space, "d_sae": count}))
    return path


def sparsify_folder(path: Path, model: PlantedModel) -> Path:
    """A folder as sparsify saves a coder: the encoder is a layer of PyTorch."""
    path.mkdir()
    count, space = model.directions.shape
    weights = {
        "encoder.weight": model.directions,
        "encoder.bias": np.zeros(count),
        "W_dec": model.directions,
        "b_dec": np.zeros(space),
    }
    save_file(
        {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()}, path / "sae.safetensors"
    )
    (path / "cfg.json").write_text(json.dumps({"k": 32, "activation": "topk", "num_latents": count, "d_in": space}))
    return path


@pytest.mark.parametrize("folder", [saelens_folder, sparsify_folder])
def test_folders_of_libraries_are_read_as_they_are(folder, models, tmp_path: Path) -> None:
    dictionary = read_dictionary(folder(tmp_path / "sae", models[0]))
    assert dictionary.directions == pytest.approx(models[0].directions, abs=1e-6)
    assert dictionary.encoder == pytest.approx(models[0].directions.T, abs=1e-6)
    assert dictionary.encoder_bias.shape == (len(models[0].directions),)
    assert dictionary.one_sided


def test_the_only_dictionary_inside_a_folder_is_read(models, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    sparsify_folder(tmp_path / "run" / "layers.3", models[0])
    saelens_folder(tmp_path / "sae", models[1])
    paths = {"a": tmp_path / "run", "b": tmp_path / "sae"}
    assert list(read_models(paths).dictionaries) == ["a", "b"]
    sparsify_folder(tmp_path / "run" / "layers.4", models[0])
    with pytest.raises(RequestError, match="run holds 2 dictionaries: name one of each folder, such as"):
        read_models(paths)


def test_files_of_directions_are_read_in_every_form(tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    save_file({"W_dec": table}, tmp_path / "named.safetensors")
    save_file({"decoder.weight": np.ascontiguousarray(table.T)}, tmp_path / "layer.safetensors")
    save_file({"anything": table, "bias": np.zeros(3)}, tmp_path / "only.safetensors")
    save_file({"W_dec": table.astype(np.float16)}, tmp_path / "half.safetensors")
    np.save(tmp_path / "plain.npy", table)
    np.savez(tmp_path / "named.npz", components_=table)
    for path in sorted(tmp_path.iterdir()):
        assert read_dictionary(path).directions.tolist() == table.tolist(), path


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    content = (np.array([[1.5, -2.0]], np.float32).view(np.uint32) >> 16).astype("<u2").tobytes()
    header = json.dumps({"W_dec": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "b.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + content)
    assert read_dictionary(tmp_path / "b.safetensors").directions.tolist() == [[1.5, -2.0]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 9,
        b"\xff" * 40,
        (5).to_bytes(8, "little") + b"[1,2]",
        (60).to_bytes(8, "little") + b'{"W_dec":{"dtype":"F32","shape":[9,9],"data_offsets":[0,4]}}',
    ],
)
def test_a_damaged_file_is_refused_in_one_line(content, tmp_path: Path) -> None:
    (tmp_path / "b.safetensors").write_bytes(content)
    with pytest.raises(RequestError, match=r"^[^\n]+$") as error:
        read_dictionary(tmp_path / "b.safetensors")
    assert "b.safetensors" in str(error.value)


def test_a_dictionary_is_saved_as_saelens_does(tmp_path: Path) -> None:
    dictionary = Dictionary(np.eye(3, 5))
    again = read_dictionary(save_saelens(tmp_path / "sae", dictionary, {"models": 3}))
    assert again.directions.tolist() == np.eye(3, 5).tolist()
    assert again.encoder.tolist() == np.eye(5, 3).tolist()
    settings = json.loads((tmp_path / "sae" / "cfg.json").read_text())
    assert (settings["architecture"], settings["d_in"], settings["d_sae"]) == ("standard", 5, 3)
    # SAELens drops metadata of settings that name no version, as it takes them for those of versions before 6.
    assert settings["metadata"] == {"sae_lens_version": "6.0.0", "models": 3}


def test_a_folder_of_saelens_says_whether_features_have_a_sign(models, tmp_path: Path) -> None:
    folder = saelens_folder(tmp_path / "sae", models[0])
    settings = json.loads((folder / "cfg.json").read_text())
    (folder / "cfg.json").write_text(json.dumps({**settings, "architecture": "abstopk"}))
    assert not read_dictionary(folder).one_sided


def transcoder_folder(path: Path, seed: int) -> Path:
    """A folder as SAELens 6 saves a transcoder, which reads 4 dimensions and writes 6: three features, in any order."""
    path.mkdir()
    rng = np.random.default_rng(seed)
    order = rng.permutation(3)
    weights = {
        "W_dec": np.eye(3, 6)[order] * [[2.0], [3.0], [4.0]],
        "W_enc": np.random.default_rng(9).standard_normal((4, 3))[:, order],
        "b_enc": rng.standard_normal(3),
        "b_dec": rng.standard_normal(6),
    }
    save_file(
        {name: np.ascontiguousarray(array, np.float32) for name, array in weights.items()},
        path / "sae_weights.safetensors",
    )
    settings = {"architecture": "transcoder", "d_in": 4, "d_out": 6, "d_sae": 3, "apply_b_dec_to_input": False}
    (path / "cfg.json").write_text(json.dumps(settings))
    return path


def test_transcoders_are_compared_and_averaged(tmp_path: Path) -> None:
    dictionaries = {f"{seed}": read_dictionary(transcoder_folder(tmp_path / f"{seed}", seed)) for seed in range(3)}
    average = consensus(analyse(None, dictionaries, level=0.99))
    saved = read_dictionary(save_saelens(tmp_path / "average", average.dictionary, {}))
    assert (saved.encoder.shape, saved.directions.shape, saved.centred) == ((4, 3), (3, 6), False)
    settings = json.loads((tmp_path / "average" / "cfg.json").read_text())
    assert [settings[name] for name in ("architecture", "d_in", "d_out")] == ["transcoder", 4, 6]
    assert preactivations(saved, np.eye(4)) == pytest.approx(mean_preactivations(average, dictionaries, np.eye(4)))


def test_encoders_of_the_consensus_compute_the_mean_of_the_members(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((12, 8))
    dictionaries = {}
    for name, architecture in (("a", "standard"), ("b", "abstopk"), ("c", "abstopk")):
        order, sign = rng.permutation(12), rng.choice([-1, 1], (12, 1)) if architecture == "abstopk" else 1
        directions = (truth[order] + 0.05 * rng.standard_normal(truth.shape)) * sign
        dictionaries[name] = Dictionary(
            directions, directions.T, rng.standard_normal(12), rng.standard_normal(8), centred=name != "b"
        )
    average = consensus(analyse(None, dictionaries, signed=False))
    rows = rng.standard_normal((5, 8))
    assert len(average) == 12
    assert preactivations(average.dictionary, rows) == pytest.approx(mean_preactivations(average, dictionaries, rows))


def preactivations(dictionary: Dictionary, rows: np.ndarray) -> np.ndarray:
    inputs = rows - dictionary.decoder_bias if dictionary.centred else rows
    return inputs @ dictionary.encoder + dictionary.encoder_bias


def mean_preactivations(average, dictionaries, rows: np.ndarray) -> np.ndarray:
    """Of each component, the mean over all models, times the lengths of directions."""
    total = np.zeros((len(rows), len(average)))
    for model, dictionary in enumerate(dictionaries.values()):
        latent = average.latent[:, model]
        lengths = np.linalg.norm(dictionary.directions[latent], axis=1)
        total += average.sign[:, model] * lengths * preactivations(dictionary, rows)[:, latent]
    return total / len(dictionaries)


def test_the_command_compares_folders_and_files(models, tmp_path: Path, capsys) -> None:
    folders = [str(saelens_folder(tmp_path / f"seed{number}", model)) for number, model in enumerate(models)]
    main_without_exit(["agree", *folders, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert {row["model"] for row in answer["ranking"]} == {f"seed{number}" for number in range(5)}
    for number, model in enumerate(models):
        np.savez(tmp_path / f"both{number}.npz", codes=model.codes.toarray(), W_dec=model.directions)
    main_without_exit(["agree", *map(str, sorted(tmp_path.glob("both*.npz"))), "--out", str(tmp_path / "out")])
    assert pl.read_parquet(tmp_path / "out" / "components.parquet")["firing_rate"].is_not_null().all()


def main_without_exit(arguments: list[str]) -> None:
    with contextlib.suppress(SystemExit):
        main(arguments)


@pytest.mark.parametrize(
    ("codes", "dictionaries", "settings", "says"),
    [
        (None, [np.eye(3), np.eye(4)], {}, "compare dictionaries of one space"),
        (None, [np.eye(3), np.full((2, 3), np.inf)], {}, "direction 0 has values that are not finite"),
        (None, [np.eye(3), np.ones(3)], {}, "a row for each direction"),
        ({"a": np.ones((30, 3)), "b": np.ones((30, 3))}, {"a": np.eye(3)}, {}, "give both for every model"),
        ([np.ones((30, 2))] * 2, [np.eye(3)] * 2, {}, "each feature needs one of both"),
        (None, [np.eye(3), np.eye(3)], {"similarity": "pearson"}, "give codes"),
    ],
)
def test_dictionaries_that_do_not_fit_are_refused_in_one_line(codes, dictionaries, settings, says) -> None:
    with pytest.raises(RequestError, match=r"^[^\n]+$") as error:
        sober.agree(codes, dictionaries, **settings)
    assert says in str(error.value)


def header_only(path: Path, header: str, content: bytes = bytes(128)) -> Path:
    """A file that begins as safetensors files do."""
    path.write_bytes(len(header.encode()).to_bytes(8, "little") + header.encode() + content)
    return path


def entry(*shape: int, kind: str = "F32", end: int = 128) -> dict[str, object]:
    return {"dtype": kind, "shape": shape, "data_offsets": [0, end]}


CRAFTED = {
    "deep": "[" * 200_000,
    "deep and closed": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "a number of 5,000 digits": '{"a":' + "9" * 5000 + "}",
    "a number beyond floats": '{"W_dec": {"dtype": "F32", "shape": [8, 4], "data_offsets": [0, 1e400]}}',
    "arrays that share their bytes": json.dumps({f"a{number}": entry(8, 8, kind="BF16") for number in range(9)}),
}


@pytest.mark.parametrize("how", CRAFTED)
def test_a_crafted_header_is_one_line_that_names_the_file(how: str, tmp_path: Path) -> None:
    path = header_only(tmp_path / "crafted.safetensors", CRAFTED[how])
    with pytest.raises(RequestError, match=r"crafted.safetensors cannot be read as a safetensors file") as error:
        read_dictionary(path)
    assert "\n" not in str(error.value)


def test_of_many_tables_without_a_known_name_a_few_are_listed(tmp_path: Path) -> None:
    arrays = {f"a{n}": {"dtype": "F32", "shape": [1, 1], "data_offsets": [4 * n, 4 * n + 4]} for n in range(5000)}
    path = header_only(tmp_path / "crafted.safetensors", json.dumps(arrays), bytes(20_000))
    with pytest.raises(RequestError, match=r"5,000 tables") as error:
        read_dictionary(path)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    "part",
    [{"encoder_bias": np.zeros(3)}, {"decoder_bias": np.zeros((2, 2))}, {"encoder": np.full((4, 8), np.nan)}],
    ids=lambda part: next(iter(part)),
)
def test_an_encoder_that_does_not_fit_its_directions_is_refused_in_one_line(part: dict[str, np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    parts = {"encoder": rng.normal(size=(4, 8))} | part
    dictionaries = {name: Dictionary(rng.normal(size=(8, 4)), **parts) for name in "ab"}
    with pytest.raises(RequestError, match=rf"the {next(iter(part)).replace('_', ' ')} must be finite numbers"):
        sober.agree(dictionaries=dictionaries)
