"""`sober score` takes the files that people have, keeps their names, and says in a sentence what it cannot read."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy

import sober
from sober.errors import RequestError
from sober.files import read_table
from sober.requests.code_files import read_codes
from test_cli import run as command

ROWS = 60
RNG = np.random.default_rng(0)
SIZES = (3, 4, 2)
LABELS = RNG.integers(0, SIZES, (ROWS, 3))
CODES = np.round(LABELS @ RNG.normal(size=(3, 4)) + 0.3 * RNG.normal(size=(ROWS, 4)), 6)
LATENTS = ["z0", "z1", "z2", "z3"]
SHAPES = np.array(["square", "ellipse", "heart"])[LABELS[:, 0]]
FACTORS = {"shape": SHAPES.tolist(), "size": LABELS[:, 1].tolist(), "on": LABELS[:, 2].tolist()}
TABLE = pl.DataFrame({**dict(zip(LATENTS, CODES.T, strict=True)), **FACTORS})
EXPECTED = sober.score(CODES, pl.DataFrame(FACTORS), metrics=["mig", "dci"])


def text(columns: Iterable[Sequence[Any]], names: Sequence[str] | None, separator: str = ",") -> str:
    rows = [[str(cell) for cell in row] for row in zip(*columns, strict=True)]
    return "".join(f"{separator.join(row)}\n" for row in ([list(names)] if names else []) + rows)


def code_text(names: Sequence[str] | None = LATENTS, separator: str = ",") -> str:
    return text(CODES.T, names, separator)


def factor_text(names: Sequence[str] | None = ("shape", "size", "on"), separator: str = ",") -> str:
    return text(FACTORS.values(), names, separator)


def write(path: Path, content: Any) -> Path:
    """Writes a file in the format that its ending names."""
    if isinstance(content, str):
        path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    elif isinstance(content, pl.DataFrame):
        content.write_parquet(path)
    elif isinstance(content, dict):
        np.savez(path, **content)
    else:
        np.save(path, content)
    return path


NUMBERED = text([range(ROWS), *CODES.T], ["", "0", "1", "2", "3"])  # as pandas writes a frame
CODE_FILES = {
    "names.csv": code_text(),
    "numbers.csv": code_text(names="0123"),
    "pandas.csv": NUMBERED,
    "bare.csv": code_text(names=None),
    "tabs.tsv": code_text(separator="\t"),
    "spaces.txt": code_text(separator="   "),
    "numpy.txt": "# " + code_text(separator=" "),
    "semicolons.csv": code_text(separator=";").replace(".", ","),
    "blanks.csv": code_text(separator=" , "),
    "windows.csv": "\ufeff" + code_text().replace("\n", "\r\n"),
    "packed.csv.gz": code_text(),
    "table.parquet": TABLE.select(LATENTS),
    "array.npy": CODES,
    "arrays.npz": {"codes": CODES, "factors": LABELS[::-1]},  # another file's factors are used instead
    "alone.npz": {"anything": CODES},
}
FACTOR_FILES = {
    "names.csv": factor_text(),
    "pandas.csv": text([range(ROWS), *FACTORS.values()], ["", "shape", "size", "on"]),
    "bare.csv": factor_text(names=None),
    "tabs.tsv": factor_text(separator="\t"),
    "table.parquet": pl.DataFrame(FACTORS),
    "array.npy": np.array([SHAPES, *LABELS.T[1:].astype(str)]).T,
    "arrays.npz": {"factors": np.array([SHAPES, *LABELS.T[1:].astype(str)]).T, "names": ["shape", "size", "on"]},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scored(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[dict[str, Any], str]:
    """What `sober score` says about everything, and its notes."""
    assert command("score", *arguments, "--json", "--full") == 0
    shown = capsys.readouterr()
    return json.loads(shown.out), shown.err


@pytest.mark.parametrize("name", CODE_FILES)
def test_codes_of_every_kind_of_file_score_the_same(name: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    write(folder / f"codes-{name}", CODE_FILES[name])
    write(folder / "factors.csv", factor_text())
    found, notes = scored(capsys, f"codes-{name}", "--factors", "factors.csv", "--metrics", "mig,dci")
    assert found["scores"] == pytest.approx(dict(EXPECTED))
    assert found["factors"] == ["shape", "size", "on"]
    assert ("names no columns: they are column_0 to column_3" in " ".join(notes.split())) == (name == "bare.csv")
    assert ("the first column is left out" in " ".join(notes.split())) == (name == "pandas.csv")


@pytest.mark.parametrize("name", FACTOR_FILES)
def test_factors_of_every_kind_of_file_keep_their_names_and_text_becomes_classes(name: str, folder: Path) -> None:
    codes, factors = write(folder / "codes.npy", CODES), write(folder / f"factors-{name}", FACTOR_FILES[name])
    prepared = read_codes(codes, factors=str(factors)).codes
    assert sober.score(prepared, metrics=["mig", "dci"])["mig"] == pytest.approx(EXPECTED["mig"])
    names = {"bare.csv": ["column_0", "column_1", "column_2"], "array.npy": ["factor_0", "factor_1", "factor_2"]}
    assert [factor.name for factor in prepared.about] == names.get(name, ["shape", "size", "on"])
    assert prepared.about[0].kind == "categorical"
    assert prepared.about[0].values == ("ellipse", "heart", "square")
    assert prepared.about[1].kind == ("categorical" if "array" in name else "ordinal")


@pytest.mark.parametrize("name", ["all.csv", "all.tsv", "all.parquet", "bare.csv"])
def test_one_file_with_both(name: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    names = None if name == "bare.csv" else TABLE.columns
    separator = "\t" if name.endswith(".tsv") else ","
    content = TABLE if name.endswith(".parquet") else text([*CODES.T, *FACTORS.values()], names, separator)
    write(folder / name, content)
    factors = "column_4,column_5,column_6" if names is None else "shape, size,o*"
    found, notes = scored(capsys, name, "--factors", factors, "--metrics", "mig,dci")
    assert found["scores"] == pytest.approx(dict(EXPECTED))
    assert found["factors"] == (["column_4", "column_5", "column_6"] if names is None else ["shape", "size", "on"])
    assert f"the latents are {'column_0' if names is None else 'z0'}, " in " ".join(notes.split())
    latents = "column_0,column_1" if names is None else "z0,z1"
    two, _ = scored(capsys, name, "--codes", latents, "--factors", factors, "--metrics", "active_latents,mig")
    assert two["scores"]["active_latents"] == 2


def test_arrays_of_an_npz_file_by_other_names(folder: Path, capsys: pytest.CaptureFixture) -> None:
    write(folder / "other.npz", {"z": CODES, "y": LABELS, "shape": SHAPES, "size": LABELS[:, 1]})
    found, _ = scored(capsys, "other.npz", "--codes", "z", "--factors", "y", "--metrics", "mig")
    assert found["scores"] == dict(sober.score(CODES, LABELS, metrics="mig"))
    named, _ = scored(capsys, "other.npz", "--codes", "z", "--factors", "shape,size", "--metrics", "mig")
    assert named["factors"] == ["shape", "size"]
    one, _ = scored(capsys, "other.npz", "--codes", "z", "--factors", "size", "--metrics", "mig")
    assert one["factors"] == ["size"]
    write(folder / "codes.csv", code_text())
    elsewhere, _ = scored(capsys, "codes.csv", "--factors", "other.npz:shape,size", "--metrics", "mig")
    assert elsewhere["scores"] == pytest.approx(named["scores"])
    write(folder / "one.npy", LABELS[:, 1])
    assert scored(capsys, "codes.csv", "--factors", "one.npy", "--metrics", "mig")[0]["factors"] == ["factor_0"]


def test_sparse_codes_and_arrays_beside_the_codes(folder: Path) -> None:
    scipy.sparse.save_npz(folder / "sparse.npz", scipy.sparse.csr_array(CODES))
    write(folder / "factors.csv", factor_text())
    assert np.array_equal(read_codes(folder / "sparse.npz", factors="factors.csv").codes.mean, CODES)
    groups = np.arange(ROWS) // 4
    write(folder / "codes.npz", {"codes": CODES, "logvar": CODES, "groups": groups, "factors": LABELS})
    prepared = read_codes(folder / "codes.npz").codes
    assert np.array_equal(prepared.logvar, CODES)
    assert np.array_equal(prepared.groups, groups)


def test_empty_cells_are_labels_that_are_not_known(folder: Path, capsys: pytest.CaptureFixture) -> None:
    lines = factor_text().splitlines()
    lines[3], lines[5] = "," + lines[3].split(",", 1)[1], lines[5].rsplit(",", 2)[0] + ",NaN,NA"
    write(folder / "holes.csv", "\n".join(lines))
    write(folder / "codes.csv", code_text())
    found, _ = scored(capsys, "codes.csv", "--factors", "holes.csv", "--metrics", "mig")
    assert found["known"] == {"shape": ROWS - 1, "size": ROWS - 1, "on": ROWS - 1}
    assert "missing_labels" in found["flags"]["mig"]


def test_kinds_of_factors(folder: Path, capsys: pytest.CaptureFixture) -> None:
    depths = text([*CODES.T, RNG.random(ROWS).round(4), LABELS[:, 1]], [*LATENTS, "depth", "angle"])
    write(folder / "all.csv", depths)
    assert command("score", "all.csv", "--factors", "depth,angle") == 2
    assert "--kinds depth=continuous" in " ".join(capsys.readouterr().err.split())
    kinds = ("--factors", "depth,angle", "--kinds", "depth=continuous,angle=cyclic", "--metrics", "mig")
    assert scored(capsys, "all.csv", *kinds)[0]["flags"]["mig"] == ["binned_factor"]
    for wrong, says in (("depth=continuous,cyclic", "not of the form"), ("dept=cyclic", "not a factor")):
        assert command("score", "all.csv", "--factors", "depth,angle", "--kinds", wrong) == 2
        assert says in " ".join(capsys.readouterr().err.split())


def test_without_factors_sober_says_what_it_leaves_out(folder: Path, capsys: pytest.CaptureFixture) -> None:
    write(folder / "codes.csv", code_text())
    found, notes = scored(capsys, "codes.csv")
    assert "mig" not in found["scores"]
    assert "codes.csv has no factors" in " ".join(notes.split())
    assert scored(capsys, "codes.csv", "--metrics", "active_latents")[1] == ""


def test_several_files_share_the_factors_of_one(folder: Path, capsys: pytest.CaptureFixture) -> None:
    write(folder / "first.csv", code_text())
    write(folder / "second.npy", CODES[:, :2])
    write(folder / "factors.csv", factor_text())
    options = ("--factors", "factors.csv", "--metrics", "mig", "--halves", 2)
    assert command("score", "first.csv", "second.npy", *options, "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"]["first"] == pytest.approx({"mig": EXPECTED["mig"]})
    write(folder / "third.npy", CODES[1:])
    assert command("score", "first.csv", "third.npy", *options) == 2
    assert "third.npy has 59 rows and factors.csv 60" in " ".join(capsys.readouterr().err.split())


# ---------------------------------------------------------------- the first line


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("a,b\n1,2\n3,4", True),
        ("1,2\n3,4", False),
        ("0,1\n3,4", True),  # as pandas numbers columns
        ("1.5,red\n2.5,blue", False),
        ("3,red\n4,blue\n5,red", False),
        ("0,kind\n4,blue\n5,red", True),
        ("kind\nblue\nred", True),
        ("red\nblue\nred", False),
        ("year,2019\n1,2", True),
        ("1,\n2,3", False),
    ],
)
def test_the_first_line_names_columns_or_it_does_not(lines: str, named: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "table.csv", lines)
    table = read_table(path)
    assert table.named == named
    assert table.frame.height == lines.count("\n") + (not named)
    first = lines.split("\n", maxsplit=1)[0].split(",")
    assert table.frame.columns == (first if named else [f"column_{place}" for place in range(len(first))])


def test_where_numbers_could_be_names_the_number_of_rows_decides(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.csv", "0\n1\n2\n1\n")
    assert read_table(path, rows=4).frame["column_0"].to_list() == [0, 1, 2, 1]
    assert read_table(path, rows=3).frame["0"].to_list() == [1, 2, 1]


def test_a_first_column_that_numbers_rows_is_left_out(tmp_path: Path) -> None:
    for name, values, dropped in (
        ("", [5, 3, 8], True),
        ("Unnamed: 0", [0, 1, 2], True),
        ("Unnamed: 0", [0, 2, 1], False),
    ):
        path = write(tmp_path / "table.csv", text([values, [0.1, 0.2, 0.3]], [name, "z"]))
        assert read_table(path).dropped == (name if dropped else None)
        assert read_table(path).frame.columns == (["z"] if dropped else [name, "z"])


def test_the_index_of_a_pandas_frame_in_parquet_is_left_out(tmp_path: Path) -> None:
    frame = pl.DataFrame({"z": [0.1, 0.2], "__index_level_0__": ["first.png", "second.png"]})
    assert read_table(write(tmp_path / "codes.parquet", frame)).frame.columns == ["z"]
    assert "'__index_level_0__' is left out" in read_codes(tmp_path / "codes.parquet").notes[0]


# ---------------------------------------------------------------- what cannot be read


class Bomb:
    """Whoever unpickles it runs code."""

    def __reduce__(self) -> tuple[Callable, tuple[str]]:
        return exec, ("raise SystemExit('code of a pickle was run')",)


def objects(array: bool) -> bytes:
    content = io.BytesIO()
    if array:
        np.save(content, np.array([Bomb()], dtype=object), allow_pickle=True)
    else:
        pickle.dump(Bomb(), content)
    return content.getvalue()


REFUSED: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "missing": ({}, ["codes.csv"], "there is no file or folder codes.csv"),
    "missing factors": ({"codes.csv": code_text()}, ["codes.csv", "--factors", "f.csv"], "no file or folder f.csv"),
    "ending": ({"codes.h5": "?"}, ["codes.h5"], "codes.h5 is of no kind that Sober reads: save a table as csv"),
    "pickle": (
        {"codes.pkl": objects(False)},
        ["codes.pkl"],
        "codes.pkl holds pickled Python objects, which Sober never",
    ),
    "torch": ({"codes.pt": objects(False)}, ["codes.pt"], "which Sober never loads, because loading them can run code"),
    "npy of objects": (
        {"codes.npy": objects(True)},
        ["codes.npy"],
        "codes.npy holds Python objects, which Sober never",
    ),
    "pickle named npy": ({"codes.npy": objects(False)}, ["codes.npy"], "codes.npy cannot be read as an npy file"),
    "pickle named npz": ({"codes.npz": objects(False)}, ["codes.npz"], "codes.npz cannot be read as an npz file"),
    "pickle named csv": ({"codes.csv": objects(False)}, ["codes.csv"], "codes.csv is no text in UTF-8"),
    "text named npy": (
        {"codes.npy": code_text()},
        ["codes.npy"],
        "codes.npy cannot be read as an npy file (it does not",
    ),
    "text named parquet": (
        {"codes.parquet": code_text()},
        ["codes.parquet"],
        "codes.parquet cannot be read as a table",
    ),
    "npz without codes": (
        {"a.npz": {"latents": CODES, "labels": LABELS}},
        ["a.npz"],
        "a.npz has no array 'codes': it has latents (60, 4), labels (60, 3). Say which are codes and factors, as in "
        "--codes latents --factors labels",
    ),
    "npz with what rows have beside codes": (
        {"a.npz": {"mean": CODES, "logvar": CODES}},
        ["a.npz"],
        "Say which are codes, as in --codes mean",
    ),
    "npz without factors": (
        {"codes.npy": CODES, "a.npz": {"latents": CODES, "labels": LABELS}},
        ["codes.npy", "--factors", "a.npz"],
        "a.npz has no array 'factors': it has latents (60, 4), labels (60, 3). Say which are factors",
    ),
    "no such array": ({"a.npz": {"codes": CODES}}, ["a.npz", "--factors", "y"], "a.npz has no array 'y'"),
    "no such column": (
        {"a.csv": code_text()},
        ["a.csv", "--factors", "z5"],
        "a.csv has no column 'z5': choose one of z0, z1",
    ),
    "text among latents": (
        {"a.csv": text([*CODES.T, SHAPES], [*LATENTS, "shape"])},
        ["a.csv"],
        "a.csv: column 'shape' cannot be latents, which are numbers: name factors, as in --factors shape",
    ),
    "rows": (
        {"a.csv": code_text(), "b.csv": factor_text().rsplit("\n", 2)[0]},
        ["a.csv", "--factors", "b.csv"],
        "a.csv has 60 rows and b.csv 59: both need the same rows, in the same order",
    ),
    "hole in codes": (
        {"a.csv": code_text().replace(f"{CODES[4, 1]}", "", 1)},
        ["a.csv"],
        "a.csv: column 'z1' has 1 value missing or not finite, the first in row 4",
    ),
    "twice": ({"a.csv": code_text(names=["a", "b", "a", "c"])}, ["a.csv"], "a.csv has two columns named 'a'"),
    "ragged": ({"a.csv": "a,b\n1,2,3\n"}, ["a.csv"], "a.csv has 2 cells in its first line and 3 in others"),
    "empty": ({"a.csv": "\n"}, ["a.csv"], "a.csv is empty"),
    "names only": ({"a.csv": "a,b\n"}, ["a.csv"], "a.csv is a table without rows"),
    "itself": ({"a.csv": code_text()}, ["a.csv", "--factors", "a.csv"], "a.csv has the codes, too: name its factors"),
    "both": (
        {"a.csv": code_text()},
        ["a.csv", "--codes", "z0,z1", "--factors", "z1"],
        "column 'z1' is named as a latent and as a factor",
    ),
    "names of an array": ({"a.npy": CODES}, ["a.npy", "--factors", "shape"], "a.npy holds one array, and no factors"),
    "kinds of nothing": (
        {"a.npy": CODES},
        ["a.npy", "--kinds", "cyclic"],
        "--kinds describes factors, and a.npy has none",
    ),
    "a folder": ({}, [".", "--factors", "shape"], "--factors is for files"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_named_in_a_sentence(case: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    files, arguments, says = REFUSED[case]
    for name, content in files.items():
        path = folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            write(path, content) if not isinstance(content, str) else path.write_text(content, encoding="utf-8")
    assert command("score", *arguments) == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert says in shown
    assert "allow_pickle" not in shown


def test_a_pickle_inside_an_npz_file_is_not_loaded(folder: Path, capsys: pytest.CaptureFixture) -> None:
    """It is named if it is needed, and does not disturb the other arrays."""
    np.savez(folder / "a.npz", codes=CODES, factors=np.array([Bomb()] * ROWS, dtype=object), allow_pickle=True)
    with pytest.raises(RequestError, match=r"a\.npz: array 'factors' holds Python objects, which Sober never loads"):
        read_codes(folder / "a.npz")
    np.savez(folder / "b.npz", codes=CODES, factors=LABELS, settings=np.array([Bomb()], dtype=object))
    assert scored(capsys, "b.npz", "--metrics", "mig")[0]["factors"] == ["factor_0", "factor_1", "factor_2"]
