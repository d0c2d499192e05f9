"""Conditions on factors, as people write them: `red > green + 0.15 and elevation > pi / 4`, `shape == "heart"`.

A condition is read as Python's grammar has it, and only comparisons, + - * /, and, or, not, pi, numbers, names of
factors and names of classes in quotes are understood: nothing is ever executed. Nothing here needs JAX.
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

from sober.errors import RequestError, brief, listed
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


def true_of(
    condition: str, about: Sequence[Factor], labels: Num[np.ndarray, "N K"], names: Collection[str] = ()
) -> Bool[np.ndarray, " N"]:
    """For which rows of factors a condition is true. `names` are conditions that a person could have named instead."""
    try:
        tree = ast.parse(condition.strip(), mode="eval").body
        true = np.asarray(_evaluated(tree, condition, about, labels, names))
    except RequestError:
        raise
    except (SyntaxError, TypeError, ValueError) as error:
        raise RequestError(f"the condition {condition!r} cannot be read ({brief(error)})") from error
    if true.shape != (len(labels),) or true.dtype != bool:
        raise RequestError(f"the condition {condition!r} is not true or false for every picture: compare factors")
    return true


def check_condition(condition: str, about: Sequence[Factor], names: Collection[str] = ()) -> None:
    """An error for what is wrong with a condition whatever the pictures, so that their labels need not be known."""
    true_of(condition, about, np.zeros((0, len(about)), np.int64), names)


def _check_class(condition: str, about: Sequence[Factor], count: int, named: ast.AST, against: ast.AST) -> None:
    """An error where a factor is compared with a class that it does not have, which would be true of no picture."""
    factors = {factor.name: factor for factor in about}
    match named, against:
        case ast.Name(id=name), ast.Constant(value=value) if name in factors:
            factor = factors[name]
        case _:
            return
    if factor.values and isinstance(factor.values[0], str):
        if value not in factor.values:
            known = listed(map(str, factor.values))
            raise RequestError(f"factor {name} has classes {known}, got {value!r} in the condition {condition!r}")
    # Names of classes may be in files that are not here: whether there are any is known once there are labels.
    elif isinstance(value, str) and (count or factor.kind != "categorical"):
        raise RequestError(f"factor {name} is a number, got {value!r} in the condition {condition!r}")


def _evaluated(
    tree: ast.AST, condition: str, about: Sequence[Factor], labels: Num[np.ndarray, "N K"], names: Collection[str]
) -> Any:
    """What a condition gives for pictures with these labels."""
    columns = {factor.name: k for k, factor in enumerate(about)}

    def value(node: ast.AST) -> Any:  # noqa: PLR0911 (a case for each kind of node)
        match node:
            case ast.Constant(value=int() | float() | str()):
                return node.value
            case ast.Name(id="pi"):
                return np.pi
            case ast.Name(id=name) if name in columns:
                factor, column = about[columns[name]], labels[:, columns[name]]
                return np.array(factor.values)[column.astype(int)] if factor.values else column
            case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTE:
                return COMPUTE[type(op)](value(left), value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~value(operand)
            case ast.BoolOp(op=op, values=parts):
                joined = np.logical_and if isinstance(op, ast.And) else np.logical_or
                return functools.reduce(joined, map(value, parts))
            case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in COMPARE for op in ops):
                for pair in itertools.pairwise((left, *rest)):
                    _check_class(condition, about, len(labels), *pair)
                    _check_class(condition, about, len(labels), *pair[::-1])
                ends = [value(operand) for operand in (left, *rest)]
                pairs = zip(ops, ends, ends[1:], strict=False)
                return functools.reduce(np.logical_and, (COMPARE[type(op)](a, b) for op, a, b in pairs))
        regions = f", or name the region {listed(names)}" if names else ""
        raise RequestError(
            f"{ast.unparse(node)!r} in the condition {condition!r} is not understood: compare the factors "
            f"{listed(columns)} with numbers or with names in quotes, joined by and, or, not{regions}"
        )

    return value(tree)
