"""Tables of labels: each row finds its picture, each column its kind, and what does not fit is said."""

from __future__ import annotations

import csv
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sober.errors import RequestError
from sober.worlds.pictures.label_table import MISSING, _read, factors_of, parse_kinds, read_labels

PICTURES = ("cats/001.png", "cats/002.png", "dogs/003.JPG", "dogs/v1.5.png")


def write(folder: Path, text: str) -> Path:
    path = folder / "labels.csv"
    path.write_text(text, encoding="utf-8")
    return path


def quiet(path: Path, *arguments: Any, **options: Any) -> Any:
    """Labels that come without any warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_labels(path, *arguments, **options)


def kinds_of(columns: dict[str, list[Any]], **kinds: str) -> dict[str, tuple[Any, ...]]:
    labelled, _ = factors_of(columns, kinds, len(next(iter(columns.values()))))
    return {factor.name: (factor.kind, factor.size, factor.values) for factor in labelled.factors}


# Which row is whose


@pytest.mark.parametrize(
    "named",
    [
        ["cats/001.png", "cats/002.png", "dogs/003.JPG", "dogs/v1.5.png"],
        ["./cats/001.png", "./cats/002.png", "./dogs/003.JPG", "./dogs/v1.5.png"],
        ["cats\\001.png", "cats\\002.png", "dogs\\003.JPG", "dogs\\v1.5.png"],
        ["cats/001", "cats/002", "dogs/003", "dogs/v1.5"],
        ["001.png", "002.png", "003.JPG", "v1.5.png"],
        ["elsewhere/001.png", "elsewhere/002.png", "elsewhere/003.JPG", "elsewhere/v1.5.png"],
        ["001", "002", "003", "v1.5"],
        ["001.jpg", "002.jpg", "003.jpg", "v1.5.jpg"],
    ],
)
def test_a_picture_is_named_by_its_path_or_file_with_or_without_ending(tmp_path: Path, named: list[str]) -> None:
    rows = [f"{name},{shade}" for name, shade in zip(named, "adda", strict=True)]
    labelled = quiet(write(tmp_path, "name,shade\n" + "\n".join(rows[::-1])), PICTURES)
    assert [factor.name for factor in labelled.factors] == ["shade"]
    np.testing.assert_array_equal(labelled.values[:, 0], [0, 1, 1, 0])


def test_files_named_by_numbers_keep_their_zeros(tmp_path: Path) -> None:
    labelled = quiet(write(tmp_path, "id,n\n7,0\n07,1\n007,0\n"), ["007.png", "07.png", "7.png"])
    np.testing.assert_array_equal(labelled.values[:, 0], [0, 1, 0])


def test_the_column_that_names_most_pictures_is_taken_unless_told(tmp_path: Path) -> None:
    path = write(tmp_path, "old,new,n\n001,002,0\n002,001,0\nx,003,1\ny,v1.5,1\n")
    with pytest.warns(UserWarning, match=r"by its column 'new': left out old \(another value for each picture\)"):
        np.testing.assert_array_equal(read_labels(path, PICTURES).values[:, 0], [0, 0, 1, 1])
    with pytest.warns(
        UserWarning, match="by its column 'old': .*2 of 4 pictures without a row; 2 rows without a picture"
    ):
        labelled = read_labels(path, PICTURES, file="old", kinds={"n": "ordinal"})
    np.testing.assert_array_equal(labelled.values[:, 0], [0, 0, np.nan, np.nan])


def test_pictures_of_one_name_in_two_folders_are_told_apart_by_path(tmp_path: Path) -> None:
    pictures = ("a/1.png", "a/2.png", "b/1.png", "b/3.png")
    by_path = write(tmp_path, "file,n\na/1.png,0\nb/1.png,1\na/2.png,0\n")
    with pytest.warns(UserWarning, match="1 of 4 pictures without a row"):
        np.testing.assert_array_equal(read_labels(by_path, pictures).values[:, 0], [0, 0, 1, np.nan])
    with pytest.raises(
        RequestError, match=r"one row for 1\.png, but there are a/1\.png and b/1\.png: write their paths"
    ):
        read_labels(write(tmp_path, "file,n\n1.png,0\n2.png,1\n3.png,0\n"), pictures)


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("file,n\n1,0\n2,1\n", {}, r"no column names any of the pictures, such as cats/001\.png"),
        ("file,n\n1,0\n2,1\n", {"file": "file"}, "column 'file' names none of the pictures"),
        ("file,n\n001,0\n", {"file": "name"}, "no column 'name': choose one of file, n"),
        ("file,n\n001,0\n002,1\n001,0\n", {}, "two rows for 001 in column 'file', rows 1 and 3: keep one"),
        ("file,n\n001,0\n", {"kinds": {"m": "ordinal"}}, "no column m to be a factor: choose one of n"),
        ("file,n\n001,0\n", {"kinds": {"file": "ordinal"}}, "no column file to be a factor: choose one of n"),
        ("file,n\n001,0\n", {"kinds": {"n": "huge"}}, "'n' cannot be 'huge': choose one of categorical, continuous"),
        ("file,n\n001,red\n", {"kinds": {"n": "continuous"}}, "'n' cannot be continuous: it holds 'red'"),
        ("file,n\n001,\n", {"kinds": {"n": "ordinal"}}, "'n' cannot be ordinal: it holds nothing"),
        ("file,n\n001,0\n002,inf\n", {}, "an infinite value in column 'n'"),
        ("file,n,n\n001,0,1\n", {}, "several columns named n"),
        ("file,n\n001,0\n002,1,5\n", {}, "row 2: 3 values for 2 columns"),
        ("file,n\n001,0\n\n002\n", {}, "row 2: 1 value for 2 columns"),
        ('file,n\n"0\n01","a,b"\n002,1,\n', {}, "row 2: 3 values for 2 columns"),
        ('file,n\n001,"0\n', {}, "cannot be read as CSV"),
        ('file,n\n001,"0"1\n', {}, "cannot be read as CSV"),
        ("file,n\n", {}, "has no rows"),
        ("", {}, "has no rows"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path: Path, text: str, options: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        read_labels(write(tmp_path, text), PICTURES, **options)


def test_a_table_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no table of labels at"):
        read_labels(tmp_path / "none.csv", PICTURES)
    (tmp_path / "bytes.csv").write_bytes(b"file,n\n\xff\xfe,1\n")
    with pytest.raises(RequestError, match="cannot be read as CSV in UTF-8"):
        read_labels(tmp_path / "bytes.csv", PICTURES)


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_commas_semicolons_tabs_quotes_blank_lines_and_a_byte_order_mark_are_read(tmp_path: Path, between: str) -> None:
    lines = [["file", "the, shade; of\tit"], ["001", "a, b"], [], ["002", 'c "d"'], ["003", "a, b"], ["v1.5", "é"]]
    quoted = [between.join('"' + cell.replace('"', '""') + '"' for cell in line) for line in lines]
    if between != ",":
        quoted[0] = between.join(["file", "shade"])
    labelled = quiet(write(tmp_path, "\ufeff" + "\r\n".join(quoted)), PICTURES)
    assert labelled.factors[0].values == ("a, b", 'c "d"', "é")
    np.testing.assert_array_equal(labelled.values[:, 0], [0, 1, 0, 2])


def test_quotes_within_a_cell_lines_within_quotes_and_spaces_around_cells_are_read(tmp_path: Path) -> None:
    text = 'file , size\r001, 5" x 6"\r\n"002","two\r\nlines, one cell"\n003 ,5" x 6"\n"v1.5",""\n,\n'
    path = tmp_path / "labels.csv"
    path.write_bytes(text.encode())
    with pytest.warns(UserWarning, match="1 row without a picture"):
        labelled = read_labels(path, PICTURES)
    assert labelled.factors[0].values == ('5" x 6"', "two\nlines, one cell")
    np.testing.assert_array_equal(labelled.values[:, 0], [0, 1, 0, np.nan])


cells = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"], include_characters='",;\t\n'), max_size=5)


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=6), between=st.sampled_from(",;\t"))
def test_a_table_that_python_wrote_is_read_as_python_reads_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], between: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=between).writerows(
            [("file", "a", "b"), *((at, *row) for at, row in enumerate(rows))]
        )
    ours = _read(path)
    for column, name in enumerate("ab"):
        theirs = [row[column].strip() for row in rows]
        assert ours[name] == [None if cell.lower() in MISSING else cell for cell in theirs]


def test_a_column_without_a_name_is_called_by_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, ",file,n\n0,001,1\n1,002,1\n2,003,2\n3,v1.5,2\n")
    with pytest.warns(UserWarning, match=r"left out column 1 \(another value for each picture\)"):
        assert [factor.name for factor in read_labels(path, PICTURES).factors] == ["n"]


# What kind a column is


def test_the_rule_of_kinds(tmp_path: Path) -> None:
    header = "file,species,legs,with_gaps,height,code,same,empty,id,underscored"
    rows = ["001,cat,4,1.0,0.5,a1,x,,11,1_0", "002,ant,6,,1.25,a1,x,NA,12,1_0", "003,cat,4,2.0,3,7,x,nan,13,2_0"]
    path = write(tmp_path, "\n".join([header, *rows, "v1.5,Null,10,2.0,0.5,7,x,null,14,2_0"]))
    with pytest.warns(UserWarning, match=r"left out same \(one value\), empty \(no values\), id \(another"):
        labelled = read_labels(path, PICTURES)
    assert [(f.name, f.kind, f.size, f.values) for f in labelled.factors] == [
        ("species", "categorical", 2, ("ant", "cat")),
        ("legs", "ordinal", 3, (4.0, 6.0, 10.0)),
        ("with_gaps", "ordinal", 2, (1.0, 2.0)),
        ("height", "continuous", 0, ()),
        ("code", "categorical", 2, ("7", "a1")),
        ("underscored", "categorical", 2, ("1_0", "2_0")),
    ]
    expected = [[1, 0, 0, 0.5, 1, 0], [0, 1, np.nan, 1.25, 1, 0], [1, 0, 1, 3, 0, 1], [np.nan, 2, 1, 0.5, 0, 1]]
    np.testing.assert_array_equal(labelled.values, expected)


def test_many_whole_numbers_are_continuous_and_a_hundred_are_not() -> None:
    twice = [float(at) for at in range(100)] * 2
    assert kinds_of({"n": twice}) == {"n": ("ordinal", 100, tuple(map(float, range(100))))}
    assert kinds_of({"n": [*twice, 100.0]}) == {"n": ("continuous", 0, ())}


def test_real_numbers_may_all_differ() -> None:
    assert kinds_of({"x": [0.1, 0.2, 0.3]}) == {"x": ("continuous", 0, ())}


def test_kinds_override_the_rule() -> None:
    columns = {"n": [10.0, 9.0, 10.0, None], "x": [0.5, 1.5, 0.5, 2.0], "id": [1.0, 2.0, 3.0, 4.0], "one": ["a"] * 4}
    said = {"n": "categorical", "x": "ordinal", "id": "continuous", "one": "categorical"}
    assert kinds_of(columns, **said) == {
        "n": ("categorical", 2, ("9", "10")),
        "x": ("ordinal", 3, (0.5, 1.5, 2.0)),
        "id": ("continuous", 0, ()),
        "one": ("categorical", 1, ("a",)),
    }


def test_a_column_may_be_ignored_whatever_it_holds(tmp_path: Path) -> None:
    path = write(tmp_path, "file,a,b\n001,inf,0\n002,1,0\n003,2,1\nv1.5,2,1\n")
    labelled = quiet(path, PICTURES, kinds={"a": "ignore"})
    assert [factor.name for factor in labelled.factors] == ["b"]


def test_kinds_are_written_with_colons_and_semicolons() -> None:
    assert parse_kinds("height:continuous;a:b:cyclic;") == {"height": "continuous", "a:b": "cyclic"}
    assert parse_kinds("") == {}
    for wrong in ("height", ":continuous", "a:ordinal;b"):
        with pytest.raises(RequestError, match="COLUMN:KIND;COLUMN:KIND"):
            parse_kinds(wrong)


cell = st.one_of(st.none(), st.text(max_size=3), st.integers(-3, 3).map(float), st.floats(-5, 5))


@settings(max_examples=200, deadline=None)
@given(column=st.lists(cell, min_size=1, max_size=12), kind=st.sampled_from(["ordinal", "cyclic", "categorical"]))
def test_classes_name_their_values_and_gaps_stay_gaps(column: list[Any], kind: str) -> None:
    if all(value is None for value in column):
        return
    labelled, notes = factors_of({"c": column}, {"c": kind}, len(column))
    (factor,) = labelled.factors
    assert not notes
    assert list(np.isnan(labelled.values[:, 0])) == [value is None for value in column]
    seen = {int(each): value for each, value in zip(labelled.values[:, 0], column, strict=True) if value is not None}
    assert sorted(seen) == list(range(factor.size))
    for each, value in seen.items():
        named = factor.values[each]
        assert named == value or float(named) == value


# Parquet


def test_parquet_is_read_as_it_is_typed(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    polars.DataFrame(
        {
            "name": ["001", "002", "003", "v1.5"],
            "digits": ["1", "2", "1", None],
            "legs": [4, 4, None, 6],
            "height": [0.5, 1.5, float("nan"), 2.5],
            "wild": [True, False, True, True],
            "species": polars.Series(["cat", "ant", "cat", "cat"], dtype=polars.Categorical),
            "tags": [["a"], ["b"], [], None],
        }
    ).write_parquet(tmp_path / "labels.parquet")
    with pytest.warns(UserWarning, match=r"left out tags \(neither text nor numbers\)"):
        labelled = read_labels(tmp_path / "labels.parquet", PICTURES)
    assert [(f.name, f.kind, f.values) for f in labelled.factors] == [
        ("digits", "categorical", ("1", "2")),
        ("legs", "ordinal", (4.0, 6.0)),
        ("height", "continuous", ()),
        ("wild", "categorical", ("false", "true")),
        ("species", "categorical", ("ant", "cat")),
    ]
    nan = np.nan
    np.testing.assert_array_equal(
        labelled.values, [[0, 0, 0.5, 1, 1], [1, 0, 1.5, 0, 0], [0, nan, nan, 1, 1], [nan, 1, 2.5, 1, 1]]
    )


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    (tmp_path / "labels.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(RequestError, match="cannot be read as parquet"):
        read_labels(tmp_path / "labels.parquet", PICTURES)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_without_polars_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    (tmp_path / f"labels.{ending}").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(RequestError, match=f"reading labels.{ending} needs polars: pip install polars"):
        read_labels(tmp_path / f"labels.{ending}", PICTURES)
