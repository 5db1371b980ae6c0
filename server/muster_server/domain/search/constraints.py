"""Conditions between hyperparameters, written as small expressions: `batch * accumulate <= 4096`.

Numbers, text in quotes, lists of them, + - * / // % **, comparisons, `in`, `and`, `or`, `not` and
names. A name is a hyperparameter; one in a group is written with its path, `optimizer.momentum`.
Nothing else is evaluated: an expression is data, not code.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

MAX_LENGTH = 500
MAX_EXPONENT = 64
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


class _Absent(Exception):
    pass


class Constraint:
    """One expression. Raises ValueError, with what is wrong, for one that cannot be evaluated."""

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_LENGTH:
            raise ValueError(f"is longer than {MAX_LENGTH} characters")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError("cannot be read as an expression") from error
        self.names: frozenset[str] = frozenset(_check(self._tree))
        if not self.names:
            raise ValueError("names no hyperparameter")

    def holds(self, hparams: Mapping[str, Any]) -> bool:
        """Return whether a point satisfies the constraint.

        It holds if it names a hyperparameter the point does not have (its `when` is not met). It
        does not hold if it divides by zero or compares text with a number.
        """
        try:
            return bool(_value(self._tree, hparams))
        except _Absent:
            return True
        except (TypeError, ZeroDivisionError, OverflowError):
            return False


def _check(node: ast.expr) -> set[str]:
    """Return the names in an expression. Raises ValueError for anything that is not allowed."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return set()
        case ast.Name() | ast.Attribute():
            return {_path(node)}
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _check(left) | _check(right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
            return _check(operand)
        case ast.BoolOp(values=values):
            return set().union(*(_check(v) for v in values))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in _COMPARE for op in ops
        ):
            return _check(left).union(*(_check(v) for v in others))
        case ast.List(elts=values) | ast.Tuple(elts=values):
            return set().union(*(_check(v) for v in values))
    raise ValueError(f"{ast.unparse(node)!r} is not allowed there")


def _path(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{_path(value)}.{name}"
    raise ValueError(f"{ast.unparse(node)!r} is not the name of a hyperparameter")


def _value(node: ast.expr, hparams: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            return _look_up(_path(node), hparams)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, hparams), _value(right, hparams)
            if not all(isinstance(v, int | float) for v in (a, b)):
                raise TypeError("arithmetic needs numbers")
            if isinstance(op, ast.Pow) and abs(b) > MAX_EXPONENT:
                raise OverflowError
            return _BINARY[type(op)](a, b)
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, hparams)
            if isinstance(op, ast.Not):
                return not value
            return -value if isinstance(op, ast.USub) else +value
        case ast.BoolOp(op=op, values=values):
            results = (bool(_value(v, hparams)) for v in values)
            return all(results) if isinstance(op, ast.And) else any(results)
        case ast.Compare(left=left, ops=ops, comparators=others):
            a = _value(left, hparams)
            for compare, other in zip(ops, others, strict=True):
                b = _value(other, hparams)
                if not _COMPARE[type(compare)](a, b):
                    return False
                a = b
            return True
        case ast.List(elts=values) | ast.Tuple(elts=values):
            return [_value(v, hparams) for v in values]
    raise AssertionError("checked when it was read")


def _look_up(path: str, hparams: Mapping[str, Any]) -> Any:
    at: Any = hparams
    for key in path.split("."):
        if not isinstance(at, Mapping) or key not in at:
            raise _Absent
        at = at[key]
    return at
