"""``calculate_output`` of a multi grader: arithmetic over the rewards of its graders, read as Python's and never run as it.

``+ - * /``, ``^`` for powers, brackets, numbers, names of graders, and FUNCTIONS.
"""

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from rl.base.names import unknown_name
from rl.from_systems.openai_tuning.graders.failures import GradingFailed

LONGEST: Final = 2000
FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "exp": math.exp,
    "sqrt": math.sqrt,
    "log": math.log,
}
_OF_SEVERAL: Final = ("min", "max")
_OPERATORS: Final[Mapping[type, Callable[..., float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def check(text: str, names: Collection[str]) -> None:
    """``names``: of the graders. Raises ValueError."""
    if len(text) > LONGEST:
        raise ValueError(f"a formula has at most {LONGEST:,} characters, not {len(text):,}")
    try:
        _check_part(_parse(text), names)
    except RecursionError:
        raise ValueError("the formula is nested too deeply") from None


def compute(text: str, values: Mapping[str, float]) -> float:
    """Raises GradingFailed where these values have no result, as by a division by zero."""
    try:
        result = _compute(_parse(text), values)
    except (ArithmeticError, ValueError, RecursionError) as error:
        raise GradingFailed("formula_parse_error", str(error)) from None
    if not math.isfinite(result):
        raise GradingFailed("formula_parse_error", f"the formula gives {result}")
    return result


def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, MemoryError) as error:  # MemoryError: brackets in brackets
        raise ValueError(f"the formula cannot be read: {getattr(error, 'msg', None) or 'too many brackets'}") from None


def _check_part(node: ast.AST, names: Collection[str]) -> None:
    match node:
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            _check_part(left, names)
            _check_part(right, names)
        case ast.UnaryOp(op, operand) if type(op) in _OPERATORS:
            _check_part(operand, names)
        case ast.Constant(value) if type(value) in (int, float):
            pass
        case ast.Name(name):
            if name not in names:
                raise ValueError(unknown_name("grader", name, names))
        case ast.Call(ast.Name(name), arguments, []):
            if name not in FUNCTIONS:
                raise ValueError(unknown_name("function", name, FUNCTIONS))
            if not arguments or (len(arguments) > 1 and name not in _OF_SEVERAL):
                raise ValueError(f"{name} takes {'at least ' if name in _OF_SEVERAL else ''}one number")
            for argument in arguments:
                _check_part(argument, names)
        case _:
            raise ValueError(f"a formula has + - * / ^, numbers, graders and {', '.join(FUNCTIONS)}")


def _compute(node: Any, values: Mapping[str, float]) -> float:
    match node:
        case ast.BinOp(left, op, right):
            return _OPERATORS[type(op)](_compute(left, values), _compute(right, values))
        case ast.UnaryOp(op, operand):
            return _OPERATORS[type(op)](_compute(operand, values))
        case ast.Constant(int() | float() as value):
            return float(value)
        case ast.Name(name):
            return values[name]
    return float(FUNCTIONS[node.func.id](*(_compute(argument, values) for argument in node.args)))
