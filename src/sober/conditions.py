"""Conditions on factors, as people write them: `red > green + 0.15 and elevation > pi / 4`, `shape == "heart"`.

A condition is parsed with Python's grammar. It may hold comparisons, + - * /, and, or, not, pi, numbers, names of
factors, and names of classes in quotes. Nothing is executed, and nothing here needs JAX.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Num

from sober.errors import RequestError, brief, choices, listed, nearest
from sober.types import Factor

COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
COMPUTE = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def condition_mask(
    condition: str, factors: Sequence[Factor], labels: Num[np.ndarray, "N K"], regions: Collection[str] = ()
) -> Bool[np.ndarray, " N"]:
    """Whether a condition on the factors is true, for each row of labels.

    `regions` are named conditions of the world: an error mentions them as alternatives.
    """
    try:
        tree = ast.parse(condition.strip(), mode="eval").body
        mask = np.asarray(_evaluated(tree, condition, factors, labels, regions))
    except RequestError:
        raise
    except (SyntaxError, TypeError, ValueError) as error:
        raise RequestError(f"the condition {condition!r} cannot be read ({brief(error)})") from error
    if mask.shape != (len(labels),) or mask.dtype != bool:
        raise RequestError(f"the condition {condition!r} is not true or false for every picture: compare factors")
    return mask


def check_condition(condition: str, factors: Sequence[Factor], regions: Collection[str] = ()) -> None:
    """Refuses a condition that is wrong for every possible label. It needs no labels."""
    condition_mask(condition, factors, np.zeros((0, len(factors)), np.int64), regions)


def _check_class(condition: str, factors: Sequence[Factor], rows: int, left: ast.AST, right: ast.AST) -> None:
    """Refuses a comparison of a factor with a class that the factor does not have: no picture would match."""
    by_name = {factor.name: factor for factor in factors}
    match left, right:
        case ast.Name(id=name), ast.Constant(value=value) if name in by_name:
            factor = by_name[name]
        case _:
            return
    if factor.values and isinstance(factor.values[0], str):
        if value not in factor.values:
            advice = choices(str(value), map(str, factor.values))
            raise RequestError(f"factor {name} has no class {value!r}, as in the condition {condition!r}: {advice}")
    # Without labels, a categorical factor may still get names of classes from files that are not here.
    elif isinstance(value, str) and (rows or factor.kind != "categorical"):
        raise RequestError(f"factor {name} is a number, got {value!r} in the condition {condition!r}")


def _evaluated(
    tree: ast.AST, condition: str, factors: Sequence[Factor], labels: Num[np.ndarray, "N K"], regions: Collection[str]
) -> Any:
    """The value of a condition for pictures with these labels."""
    columns = {factor.name: k for k, factor in enumerate(factors)}

    def value(node: ast.AST) -> Any:  # noqa: PLR0911 (a case for each kind of node)
        match node:
            case ast.Constant(value=int() | float() | str()):
                return node.value
            case ast.Name(id="pi"):
                return np.pi
            case ast.Name(id=name) if name in columns:
                factor, column = factors[columns[name]], labels[:, columns[name]]
                return np.array(factor.values)[column.astype(int)] if factor.values else column
            case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTE:
                return COMPUTE[type(op)](value(left), value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~value(operand)
            case ast.BoolOp(op=op, values=operands):
                combine = np.logical_and if isinstance(op, ast.And) else np.logical_or
                return functools.reduce(combine, map(value, operands))
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in COMPARE for op in ops):
                for pair in itertools.pairwise((left, *rest)):
                    _check_class(condition, factors, len(labels), *pair)
                    _check_class(condition, factors, len(labels), *pair[::-1])
                values = [value(operand) for operand in (left, *rest)]
                pairs = zip(ops, values, values[1:], strict=False)
                return functools.reduce(np.logical_and, (COMPARE[type(op)](a, b) for op, a, b in pairs))
        if isinstance(node, ast.Name) and nearest(node.id, columns):
            raise RequestError(f"{node.id!r} in the condition {condition!r} is no factor: {choices(node.id, columns)}")
        or_region = f", or name the region {listed(regions)}" if regions else ""
        raise RequestError(
            f"{ast.unparse(node)!r} in the condition {condition!r} is not understood: compare the factors "
            f"{listed(columns)} with numbers or with names in quotes, joined by and, or, not{or_region}"
        )

    return value(tree)
