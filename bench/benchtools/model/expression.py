"""Arithmetic in case files: numbers of a case's shape, + - * / // % and min, max, ceil_div."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b)}


def evaluate(text: str | int | float, names: Mapping[str, object]) -> float:
    """The value of an expression; raises ValueError that says what is wrong with it."""
    if isinstance(text, (int, float)):
        return text

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name):
            number = names.get(node.id)
            if not isinstance(number, (int, float)):
                raise ValueError(f"{text!r}: {node.id} is not a number of the case's shape")
            return number
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*map(value, node.args))
        raise ValueError(f"{text!r}: {ast.unparse(node)} is not arithmetic on numbers")

    try:
        return float(value(ast.parse(text, mode="eval").body))
    except (SyntaxError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"{text!r}: {error}") from error
