"""Conditions on factors, as people write them: `red > green + 0.15 and elevation > pi / 4`, `shape == "heart"`.

A condition is read as Python's grammar has it, and only comparisons, + - * /, and, or, not, pi, numbers, names of
factors and names of classes in quotes are understood: nothing is ever executed. A world may have names for conditions,
its `regions`; such a name stands for the condition.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
from typing import Any

import numpy as np
from jaxtyping import Bool

from sober.errors import RequestError, brief, listed
from sober.worlds.world import Labels, World

COMPARE = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
COMPUTE = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def holds(base: World, condition: str) -> Bool[np.ndarray, " N"]:
    """For which pictures of a world a condition on the values of its factors is true."""
    text = base.regions.get(condition, condition)
    try:
        tree = ast.parse(text, mode="eval").body
        # What is wrong with a condition is wrong for no pictures too, and these need no files.
        _check(_evaluated(base, tree, text, np.zeros((0, len(base.factors)), np.int64)), 0, base, text)
        return _check(_evaluated(base, tree, text, base.labels(np.arange(base.size))), base.size, base, text)
    except RequestError:
        raise
    except (SyntaxError, TypeError, ValueError) as error:
        raise RequestError(f"the condition {text!r} cannot be read ({brief(error)})") from error


def _check(true: Any, count: int, base: World, condition: str) -> Bool[np.ndarray, " N"]:
    array = np.asarray(true)
    if array.shape != (count,) or array.dtype != bool:
        raise RequestError(f"the condition {condition!r} is not true or false for every picture of {base.spec}")
    return array


def _check_class(base: World, condition: str, count: int, named: ast.AST, against: ast.AST) -> None:
    """An error where a factor is compared with a class that it does not have, which would be true of no picture."""
    factors = {factor.name: factor for factor in base.factors}
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


def _evaluated(base: World, tree: ast.AST, condition: str, labels: Labels) -> Any:
    """What a condition gives for pictures with these labels."""
    columns = {factor.name: k for k, factor in enumerate(base.factors)}

    def value(node: ast.AST) -> Any:  # noqa: PLR0911 (a case for each kind of node)
        match node:
            case ast.Constant(value=int() | float() | str()):
                return node.value
            case ast.Name(id="pi"):
                return np.pi
            case ast.Name(id=name) if name in columns:
                factor, column = base.factors[columns[name]], labels[:, columns[name]]
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
                    _check_class(base, condition, len(labels), *pair)
                    _check_class(base, condition, len(labels), *pair[::-1])
                ends = [value(operand) for operand in (left, *rest)]
                pairs = zip(ops, ends, ends[1:], strict=False)
                return functools.reduce(np.logical_and, (COMPARE[type(op)](a, b) for op, a, b in pairs))
        regions = f", or name the region {listed(base.regions)}" if base.regions else ""
        raise RequestError(
            f"{ast.unparse(node)!r} in the condition {condition!r} is not understood: compare the factors "
            f"{listed(columns)} with numbers or with names in quotes, joined by and, or, not{regions}"
        )

    return value(tree)
