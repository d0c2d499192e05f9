"""Arrays of any framework are taken as they are: tensors, JAX arrays, frames with named columns, lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import polars as pl
import pytest

from sober.errors import RequestError
from sober.metrics import as_codes, score
from sober.metrics.common.arrays import as_array, as_columns

RNG = np.random.default_rng(0)
FACTORS = RNG.integers(0, 4, (120, 3))
CODES = (FACTORS + RNG.integers(-2, 3, (120, 3)) / 4).astype(np.float32)  # which two bytes hold exactly
EXPECTED = score(CODES, FACTORS, metrics=["mig", "sap"])


class Tensor:
    """What a tensor of PyTorch can do, on a device from which NumPy cannot read."""

    def __init__(self, array: np.ndarray, size: int = 4, device: str = "cuda", gradient: bool = True) -> None:
        self.array, self.size, self.device, self.gradient = array, size, device, gradient

    def detach(self) -> Tensor:
        return Tensor(self.array, self.size, self.device, gradient=False)

    def cpu(self) -> Tensor:
        return Tensor(self.array, self.size, "cpu", self.gradient)

    def float(self) -> Tensor:
        return Tensor(self.array, 4, self.device, self.gradient)

    def is_floating_point(self) -> bool:
        return self.array.dtype.kind == "f"

    def element_size(self) -> int:
        return self.size

    def numpy(self) -> np.ndarray:
        if self.gradient or self.device != "cpu" or self.size == 2:
            raise TypeError("can't convert a tensor that requires grad, is on a device, or is of type bfloat16")
        return self.array

    def __array__(self, *_: object) -> np.ndarray:
        raise RuntimeError("call detach first")


@pytest.mark.parametrize(
    "made",
    [
        lambda array: array.tolist(),
        lambda array: array.astype(np.float16),
        lambda array: array.astype(ml_dtypes.bfloat16),
        lambda array: jnp.asarray(array, jnp.float16),
        lambda array: jnp.asarray(array, jnp.bfloat16),
        Tensor,
        lambda array: Tensor(array, size=2),
        lambda array: [Tensor(row) for row in array],
        lambda array: pl.DataFrame(array, schema=["a", "b", "c"]),
    ],
    ids=[
        "list",
        "float16",
        "bfloat16",
        "JAX float16",
        "JAX bfloat16",
        "tensor",
        "tensor of two bytes",
        "rows",
        "Polars",
    ],
)
def test_codes_of_any_kind_score_the_same(made: Callable[[np.ndarray], Any]) -> None:
    found = score(made(CODES), FACTORS, logvar=made(CODES), metrics=["mig", "sap"])
    assert found == pytest.approx(EXPECTED, abs=1e-6)


def test_factors_groups_and_weights_may_be_tensors() -> None:
    whole = Tensor(FACTORS, gradient=False)
    assert score(CODES, whole, metrics=["mig", "sap"]) == EXPECTED
    codes = as_codes(Tensor(CODES), whole, groups=Tensor(np.arange(120) // 4), weights=Tensor(np.arange(1.0, 121.0)))
    assert codes.groups is not None
    assert codes.groups[-1] == 29
    assert codes.weights is not None
    assert codes.weights[-1] == 120


def test_a_polars_frame_says_what_its_factors_are() -> None:
    frame = pl.DataFrame(
        {
            "shape": ["disc", "square", "disc", "heart"],
            "colour": pl.Series(["red", "blue", "red", "red"], dtype=pl.Categorical),
            "size": [0.5, 1.0, 0.5, 2.0],
            "row": [3, 1, 2, 1],
            "lit": [True, False, True, True],
        }
    )
    about = as_codes(np.eye(4), frame).about
    assert [(each.name, each.kind, each.size) for each in about] == [
        ("shape", "categorical", 3),
        ("colour", "categorical", 2),
        ("size", "ordinal", 3),  # nothing is continuous unless someone says so
        ("row", "ordinal", 3),
        ("lit", "ordinal", 2),
    ]
    told = as_codes(np.eye(4), frame, kinds={"size": "continuous"}).about
    assert [each.kind for each in told] == ["categorical", "categorical", "continuous", "ordinal", "ordinal"]
    assert {each.kind for each in as_codes(np.eye(4), frame[["row", "lit"]], kinds="cyclic").about} == {"cyclic"}
    assert as_codes(np.eye(4), frame[["row"]], names=["line"]).about[0].name == "line"


def test_a_pandas_frame_says_what_its_factors_are() -> None:
    pd = pytest.importorskip("pandas")
    sizes = pd.Categorical(["small", "large", "small", "medium"], categories=["small", "medium", "large"], ordered=True)
    frame = pd.DataFrame(
        {
            "shape": ["disc", "square", "disc", "heart"],
            "class": pd.Categorical([7, 8, 7, 7]),
            "size": sizes,
            "row": pd.array([3, 1, 2, 1], dtype="Int64"),
            4: [0.5, 1.5, 0.5, 0.5],
        }
    )
    codes = as_codes(np.eye(4), frame)
    kinds = ["categorical", "categorical", "ordinal", "ordinal", "ordinal"]
    assert [each.kind for each in codes.about] == kinds
    assert [each.name for each in codes.about] == ["shape", "class", "size", "row", "4"]
    assert codes.factors[:, 2].tolist() == [0, 2, 0, 1], "in the order of the categories, not of the alphabet"
    assert score(pd.DataFrame(CODES), FACTORS, metrics=["mig", "sap"]) == pytest.approx(EXPECTED)


def test_an_arrow_table_is_a_frame() -> None:
    pa = pytest.importorskip("pyarrow")
    columns = as_columns(pa.table({"shape": ["a", "b"], "row": [1, 2]}), None, None)
    assert columns.names == ["shape", "row"]
    assert columns.kinds == {"shape": "categorical", "row": "ordinal"}
    assert columns.array.tolist() == [["a", 1], ["b", 2]]


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_what_a_frame_does_not_know_is_a_hole(library: str) -> None:
    frames = pytest.importorskip(library)
    frame = frames.DataFrame(
        {"shape": ["a", None, "b", "a"], "size": [None, 0.5, 1.5, 0.5], "row": [1, 2, 3, None], "lit": [1, 0, 1, 1]}
    )
    array = as_columns(frame, None, None).array
    expected = [[False, True, False, False], [True, False, False, False], [False] * 4, [False, False, True, False]]
    assert np.ma.getmaskarray(array).tolist() == expected
    codes = as_codes(np.eye(4), frame)
    assert codes.known is not None
    assert (~codes.known).tolist() == expected
    assert [each.size for each in codes.about] == [2, 2, 3, 2]


def test_tensors_of_pytorch_themselves() -> None:
    torch = pytest.importorskip("torch")
    for codes in (torch.tensor(CODES, requires_grad=True), torch.tensor(CODES).bfloat16(), torch.tensor(CODES).half()):
        assert score(codes, torch.tensor(FACTORS), metrics=["mig", "sap"]) == pytest.approx(EXPECTED)
    with pytest.raises(RequestError, match="cannot be made a NumPy array, from a torch Tensor"):
        score(torch.tensor(CODES).to_sparse(), FACTORS)


@pytest.mark.parametrize(
    ("codes", "factors", "says"),
    [
        ([[1.0, 2.0], [3.0]], None, "codes cannot be made a NumPy array, from a builtins list"),
        (pl.DataFrame({"a": ["x", "y"], "b": [1, 2]}), None, "codes column 'a' does not hold numbers"),
        (pl.DataFrame({"a": [1.0, None], "b": [1, 2]}), None, "not finite in column 0"),
        (np.eye(2), pl.DataFrame({"a": [[1], [2]]}), "factors column 'a' holds neither numbers nor text"),
        (np.eye(2), [[1], [2, 3]], "factors cannot be made a NumPy array"),
        (np.zeros(3, "V2"), None, "must hold real numbers"),
        (np.zeros((3, 2), "V2"), None, "must hold real numbers"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(codes: Any, factors: Any, says: str) -> None:
    with pytest.raises(RequestError, match=says) as error:
        score(codes, factors)
    assert "\n" not in str(error.value)


def test_two_columns_of_one_name_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(RequestError, match="factors has two columns named 'a'"):
        score(np.eye(2), pd.DataFrame([[1, 2], [2, 1]], columns=["a", "a"]))


def test_what_is_an_array_already_is_handed_on() -> None:
    masked = np.ma.masked_array(CODES, CODES > 2)
    assert as_array("codes", masked) is masked
    assert as_array("codes", CODES) is CODES
