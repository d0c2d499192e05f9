"""Results of several machines in one folder."""

from __future__ import annotations

import dataclasses
import errno
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import sober
from families import small_runs
from sober.cli.main import app
from sober.errors import ReadFaultError, RequestError
from sober.files import load_arrays, read_json, save_arrays, write_json
from sober.models.encode import codes_path, encode, sample_of
from sober.models.model import load
from sober.models.packed_codes import packed
from sober.requests.merge import merge
from sober.requests.results import Results
from sober.requests.train import train
from sober.results import Folder
from sober.results.judgement_files import joined_judgement
from sober.results.repeat_files import REPEATS, load_repeats, save_repeats
from sober.results.verdict_files import load_verdicts
from sober.worlds import world

BLOCKS = world("blocks")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two folders of different runs, each scored, also in parts, judged, and carried as codes without weights."""
    folders = []
    for number, method in enumerate(("beta_vae", "beta_tcvae")):
        runs = small_runs(method, seeds=2, steps=20)
        results = train(runs, BLOCKS, tmp_path_factory.mktemp("parts") / f"{number}")
        results.score(["mig"])
        results.select(["elbo", "udr"])
        family = results.families["blocks"]
        pictures = sample_of(BLOCKS, 10_000)
        for run, codes in encode(family, pictures=pictures):
            path = codes_path(family, run, pictures)
            assert codes.logvar is not None
            save_arrays(path, packed(codes.mean, codes.logvar), load_arrays(path)[1])
            model = results.model_path(run)
            load(model).record.save(model)
        save_repeats(results.path, repeat_rows([run.identity for run in runs]))
        folders.append(results.path)
    return folders


def repeat_rows(runs: list[str], value: float = 0.5) -> pl.DataFrame:
    rows = [(run, "mig", 100, part, value) for run in runs for part in (0, 1)]
    return pl.DataFrame(rows, ["run", "metric", "pictures", "part", "value"], orient="row")


def archive(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for member in folder.rglob("*"):
            file.write(member, member.relative_to(folder))
    return path


def values(results: Results) -> dict[tuple[str, str], float]:
    rows = results.table(["run", "metric", "value"]).iter_rows()
    return {(run, metric): value for run, metric, value in rows}


def test_a_merge_holds_every_run_and_number_of_its_sources(parts: list[Path], tmp_path: Path) -> None:
    zipped = archive(parts[1], tmp_path / "part.zip")
    merged = merge([parts[0], zipped], tmp_path / "all")
    expected = values(sober.open(parts[0])) | values(sober.open(parts[1]))
    assert values(merged) == expected
    assert len(merged.finished) == len(merged.runs) == 4


def test_a_merged_folder_is_measured_and_ranked_without_weights(parts: list[Path], tmp_path: Path) -> None:
    merged = merge(parts, tmp_path / "all")
    merged.score(["sap"])
    ranking = merged.select(["elbo", "udr"])
    assert len(ranking.models) == 4
    assert ranking.verdict.checked  # how far models are trained was seen where they were
    by_run = {model.run.identity: model.scores["elbo"] for model in ranking.models}
    for part in parts:
        for model in sober.open(part).table(["run", "metric", "value"]).filter(metric="elbo").iter_rows():
            assert by_run[model[0]] == pytest.approx(model[2])
    assert merged.report().exists()


def test_a_merge_takes_scores_of_parts_and_refuses_others(parts: list[Path], tmp_path: Path) -> None:
    merged = merge(parts, tmp_path / "all")
    assert load_repeats(merged.path).equals(repeat_rows(sorted(merged.table()["run"].unique())))
    other = tmp_path / "other"
    shutil.copytree(parts[0], other)
    save_repeats(other, load_repeats(other).with_columns(value=0.6))
    with pytest.raises(RequestError, match=r"mig of run .* from 100 pictures is .* nothing was merged"):
        merge([parts[0], other], tmp_path / "none")
    assert not (tmp_path / "none" / "models").exists()
    (other / REPEATS).write_bytes(b"PAR1")
    with pytest.raises(RequestError, match=REPEATS):
        merge([other], tmp_path / "none")


def test_a_merge_keeps_the_verdict_on_all_of_its_models(parts: list[Path], tmp_path: Path) -> None:
    """A verdict on some of the models of a world is none on all of them."""
    out, without = tmp_path / "all", tmp_path / "without"
    shutil.copytree(parts[0], without, ignore=shutil.ignore_patterns("verdicts"))
    assert load_verdicts(merge([without, parts[0]], out).path) == load_verdicts(parts[0]) != {}
    assert not load_verdicts(merge(parts, out).path)
    sober.open(out).select(["elbo"])
    chosen = load_verdicts(out)
    assert chosen["blocks"].models == 4
    assert load_verdicts(merge([out, *parts], tmp_path / "again").path) == chosen
    assert load_verdicts(merge(parts, out).path) == chosen


def test_two_verdicts_on_the_same_models_are_refused(parts: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(parts[0], other)
    sober.open(other).select(["elbo"])
    with pytest.raises(RequestError, match=r"another verdict on blocks .* sober select"):
        merge([parts[0], other], tmp_path / "all")
    assert not (tmp_path / "all" / "models").exists()


def test_an_answer_with_other_settings_is_no_answer(parts: list[Path], tmp_path: Path) -> None:
    merged = merge(parts, tmp_path / "all")
    with pytest.raises(RequestError, match=r"needs the models themselves|did not judge|no scores"):
        merged.select("pipe")
    merged.select("elbo")


def test_a_merge_goes_on_and_changes_nothing_the_second_time(parts: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "all"
    merge(parts[:1], out)
    first = values(merge(parts, out))
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert values(merge(parts, out)) == first
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_merge_that_was_killed_before_its_end_goes_on(parts: list[Path], tmp_path: Path) -> None:
    whole, out = merge(parts, tmp_path / "whole"), tmp_path / "all"
    merge(parts[:1], out)
    for name in ("models", "codes", "judged", "parts"):  # all was copied, the request was not written
        shutil.copytree(whole.path / name, out / name, dirs_exist_ok=True)
    assert len(sober.open(out).runs) == 2
    assert values(merge(parts, out)) == values(whole)


def test_a_first_merge_that_is_killed_at_any_file_goes_on(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    expected, replace, left = values(merge(parts, tmp_path / "whole")), os.replace, 0

    def killed(*paths: Path) -> None:
        nonlocal left
        if not left:
            raise KilledError
        left -= 1
        replace(*paths)

    kills = 0
    for kills in range(0, 1000, 3):
        left, out = kills, tmp_path / f"killed-{kills}"
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            try:
                merge(parts, out)
                break
            except KilledError:
                pass
        assert values(merge(parts, out)) == expected
        assert load_repeats(out).equals(load_repeats(tmp_path / "whole"))
        assert not (out / ".merging").exists()
    assert kills > 9


def test_worlds_that_differ_are_refused_and_nothing_is_copied(parts: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(parts[1], other)
    request = read_json(other / "request.json")
    request["worlds"] = {"blocks": "blocks:size=16"}
    write_json(other / "request.json", request)
    with pytest.raises(RequestError, match=r"the world blocks is"):
        merge([parts[0], other], tmp_path / "all")
    assert not (tmp_path / "all" / "models").exists()
    assert len(merge(parts, tmp_path / "all").runs) == 4


def test_a_damaged_model_takes_no_sound_ones_place(parts: list[Path], tmp_path: Path) -> None:
    other, out = tmp_path / "other", tmp_path / "all"
    shutil.copytree(parts[0], other)
    merge(parts[:1], out)
    model = min((other / "models").iterdir())
    model.write_bytes(model.read_bytes() + bytes(100))
    sound = (out / "models" / model.name).read_bytes()
    with pytest.raises(RequestError, match=rf"{model.name} is"):
        merge([out, other], out)
    assert (out / "models" / model.name).read_bytes() == sound


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_models_that_cannot_be_listed_are_not_taken_for_none(
    code: int, parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, listdir, scandir = tmp_path / "all", os.listdir, os.scandir

    def failing(listing: Callable) -> Callable:
        def instead(path: str | Path = ".") -> object:
            if Path(path).name in ("models", "judged"):
                raise OSError(code, os.strerror(code))
            return listing(path)

        return instead

    before = sober.open(parts[0]).select("elbo")
    request = Folder.open(parts[0]).request
    fewer = dataclasses.replace(request, cohorts=())
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", failing(listdir))
        patch.setattr(os, "scandir", failing(scandir))
        with pytest.raises(ReadFaultError, match="models cannot be read"):
            merge(parts, out)
        with pytest.raises(ReadFaultError, match="models cannot be read"):
            Folder.begin(parts[0], fewer)  # would forget the finished runs
        with pytest.raises(ReadFaultError, match="judged cannot be read"):
            joined_judgement(parts[0], "blocks", "elbo", {})
    assert Folder.open(parts[0]).request == request
    assert [model.run for model in sober.open(parts[0]).select("elbo").models] == [model.run for model in before.models]
    assert len(merge(parts, out).finished) == 4


def test_numbers_that_differ_are_refused_and_nothing_is_copied(parts: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(parts[0], other)
    results = sober.open(other)
    table = results.table()
    for path in (other / "parts").glob("*"):
        path.unlink()
    changed = pl.when(pl.col("metric") == "mig").then(pl.col("value") + 0.1).otherwise(pl.col("value"))
    results.store.keep(table.with_columns(changed.alias("value")))
    out = tmp_path / "all"
    with pytest.raises(RequestError, match=r"mig of run .* nothing was merged"):
        merge([parts[0], other], out)
    assert not (out / "models").exists()


def test_archives_that_lie_or_lead_elsewhere_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside.zip"
    with zipfile.ZipFile(outside, "w") as file:
        file.writestr("../evil.txt", "x")
    with pytest.raises(RequestError, match="cannot be unpacked safely"):
        merge([outside], tmp_path / "all")
    (tmp_path / "text.zip").write_text("no archive")
    with pytest.raises(RequestError, match="is no archive of results"):
        merge([tmp_path / "text.zip"], tmp_path / "all")
    with pytest.raises(RequestError, match="there is no folder or archive"):
        merge([tmp_path / "missing"], tmp_path / "all")


def pack_in_an_unknown_way(data: bytearray) -> None:
    place = data.find(b"PK\x01\x02")
    while place >= 0:
        data[place + 10] = 77
        place = data.find(b"PK\x01\x02", place + 4)


def damage(data: bytearray) -> None:
    for place in range(2000, len(data) - 5000, 97):
        data[place] ^= 0x55


@pytest.mark.parametrize("change", [pack_in_an_unknown_way, damage, lambda data: data.__delitem__(slice(3000, 9000))])
def test_a_damaged_archive_is_refused_in_one_line(
    change: Callable[[bytearray], None], parts: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "part.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member in parts[0].rglob("*"):
            file.write(member, member.relative_to(parts[0]))
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    with pytest.raises(RequestError, match=r"^[^\n]*part.zip[^\n]*$"):
        merge([path], tmp_path / "all")


def test_bytes_of_an_archive_changed_at_random_end_in_results_or_one_line(parts: list[Path], tmp_path: Path) -> None:
    whole = archive(parts[0], tmp_path / "whole.zip").read_bytes()
    directory = whole.find(b"PK\x01\x02")
    for seed in range(40):
        rng, data = random.Random(seed), bytearray(whole)
        for _ in range(5):
            data[rng.randrange(directory, len(data))] = rng.randrange(256)
        path = tmp_path / "changed.zip"
        path.write_bytes(data)
        try:
            merge([path], tmp_path / f"out-{seed}")
        except RequestError as error:
            assert "\n" not in str(error)  # noqa: PT017 -- some changes do no harm


@pytest.mark.parametrize("names", [["x" * 400], ["a", "a/b"], [], ["results/request.json"]], ids=str)
def test_an_archive_without_results_or_with_odd_names_is_blamed_by_its_name(names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "odd.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, "{}")
    with pytest.raises(RequestError, match=r"odd.zip holds"):
        merge([path], tmp_path / "all")


def test_the_command_takes_a_folder_of_archives(
    parts: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "archives").mkdir()
    for number, part in enumerate(parts):
        archive(part, tmp_path / "archives" / f"{number}.zip")
    app(["merge", str(tmp_path / "archives"), "--out", str(tmp_path / "all")], result_action="return_none")
    assert "4 models" in " ".join(capsys.readouterr().out.split())
