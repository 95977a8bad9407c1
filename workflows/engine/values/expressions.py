"""Evaluation of JMESPath expressions within a budget of steps and bytes.

A short expression can cause unbounded work: `[@,@]|[@,@]|…` doubles its result with every pipe, and
`to_string` or `==` then walks all of it.  The budget counts steps, not seconds, so that the outcome
does not depend on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from typing import Any, Final

import jmespath
from jmespath import ast
from jmespath.exceptions import JMESPathError, JMESPathTypeError
from jmespath.functions import Functions
from jmespath.lexer import Lexer
from jmespath.parser import Parser
from jmespath.visitor import Options, TreeInterpreter

from .bounded_json import BoundedJSONError, Limits, check_value

#: Characters of one expression.
MAX_LENGTH: Final = 4096
#: Brackets, operators and projections inside each other.
MAX_DEPTH: Final = 100
#: Steps of one evaluation. A step takes about half a microsecond.
MAX_STEPS: Final = 100_000
#: Size of a result or of a value that a function walks through; shared parts count repeatedly.
MAX_BYTES: Final = 2 * 1024 * 1024

TOO_DEEP: Final = "is nested too deeply"

#: Values may be nested this deeply while an expression is evaluated; a result only 64 levels.
_VALUE_DEPTH: Final = 200
#: Maximum length of an error message: the library's messages repeat the whole expression.
_MESSAGE_LENGTH: Final = 1000
#: Size of a list entry, an object entry, or a number.
_ENTRY_BYTES: Final = 8
#: Amount of work that one step covers.
_BYTES_A_STEP: Final = 40  # of a value that is compared or written as text
_ENTRIES_A_STEP: Final = 4  # of a list that is copied or looked through
_CHARACTERS_A_STEP: Final = 256  # of a text that is copied or searched
_DIGITS_A_STEP: Final = 200_000  # of a whole number, squared, that is read or written
#: Additional steps of a function call or a comparison.
_CALL_STEPS: Final = 3
#: Maximum number of digits that Python parses as a whole number.
_MAX_DIGITS: Final = 4300
#: Worst-case number of comparisons per character in Python's text search.
_SEARCH_FACTOR: Final = 100

#: Nodes whose value can be larger than their input, or not representable in JSON.
_GROWING: Final = frozenset(
    {"literal", "expref", "function_expression", "multi_select_list", "multi_select_dict"}
)
_OPENING: Final = frozenset({"lparen", "lbracket", "lbrace", "filter"})
_CLOSING: Final = frozenset({"rparen", "rbracket", "rbrace"})
#: Functions that take constant time.
_CONSTANT_TIME: Final = frozenset({"length", "type", "to_array", "not_null"})
_BY_KEY: Final = frozenset({"sort_by", "min_by", "max_by"})

#: Limits of a result without a maximum size, which the budget has checked before.
_ANY_SIZE: Final = Limits(max_bytes=10**9, nodes=10**9, key_length=10**9, string_length=10**9)


class ExpressionError(ValueError):
    """An expression that is not JMESPath, or that cannot be evaluated over a value."""


class BudgetExceeded(ExpressionError):
    """The evaluation needs more steps, or makes larger values, than its budget allows."""


@dataclass(slots=True)
class Budget:
    """Steps and bytes that one or several evaluations share; `steps` is the number left."""

    steps: int = MAX_STEPS
    max_bytes: int = MAX_BYTES

    def charge(self, steps: int) -> None:
        """Subtract `steps`; raises BudgetExceeded if too few are left."""
        self.steps -= steps
        if self.steps < 0:
            raise BudgetExceeded("needs more steps than an expression may take")

    def check_size(self, size: int) -> None:
        """Raise BudgetExceeded for a value of more than `max_bytes`."""
        if size > self.max_bytes:
            raise BudgetExceeded(f"makes a value of more than {self.max_bytes} bytes")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A parsed expression.  `grows`: its result can be larger than its input."""

    parsed: Mapping[str, Any]
    grows: bool


def compiled(expression: str) -> Compiled:
    """Return the parsed expression, from a cache; raises ExpressionError."""
    if len(expression) > MAX_LENGTH:
        raise ExpressionError(f"is longer than {MAX_LENGTH} characters")
    return _compiled_short(expression) if len(expression) <= 256 else _compiled_long(expression)


# Keyed by the expression; bounded by 2048; never stale: the result depends only on the key.
@lru_cache(maxsize=2048)
def _compiled_short(expression: str) -> Compiled:
    return _compile(expression)


# Keyed by the expression; never stale. Bounded by 32: a parsed one can take a megabyte.
@lru_cache(maxsize=32)
def _compiled_long(expression: str) -> Compiled:
    return _compile(expression)


def _compile(expression: str) -> Compiled:
    try:
        _check_brackets(expression)
        parsed = jmespath.compile(expression).parsed
    except JMESPathError as error:
        raise ExpressionError(_shortened(str(error))) from error
    except RecursionError:
        raise ExpressionError(TOO_DEEP) from None
    finally:
        # The library keeps 512 expressions of any size; the caches here are bounded.
        Parser.purge()
    return Compiled(parsed, _check_tree(parsed))


def _check_brackets(expression: str) -> None:
    """Refuse brackets that are nested too deeply before the parser follows them."""
    depth = 0
    for token in Lexer().tokenize(expression):
        if token["type"] in _OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                raise ExpressionError(TOO_DEEP)
        elif token["type"] in _CLOSING:
            depth -= 1


def _check_tree(parsed: Mapping[str, Any]) -> bool:
    """Return whether the result can be larger than the input.

    Raises:
        ExpressionError: the tree is too deep.
    """
    grows = False
    level = [parsed]
    for _ in range(MAX_DEPTH):
        grows = grows or any(node["type"] in _GROWING for node in level)
        # The children of a slice are numbers.
        level = [child for node in level for child in node["children"] if isinstance(child, dict)]
        if not level:
            return grows
    raise ExpressionError(TOO_DEEP)


def expression_error(expression: str) -> str | None:
    """Return why `expression` is invalid, or None."""
    try:
        compiled(expression)
    except ExpressionError as error:
        return str(error)
    return None


def evaluate(expression: str, value: Any, budget: Budget | None = None) -> Any:
    """Return the JSON result of the expression over `value`; raises ExpressionError.

    Related expressions can share one `budget`; the default is a new budget.
    """
    budget = budget or Budget()
    meter = _Meter(budget)
    try:
        tree = compiled(expression)
        result = _Interpreter(meter).visit(tree.parsed, value)
        if tree.grows:
            # The check below walks shared parts as often as they appear.
            budget.charge(meter.size(result) // _BYTES_A_STEP)
            check_value(result, _ANY_SIZE)
    except ExpressionError:
        raise
    except JMESPathTypeError as error:
        raise ExpressionError(_type_error(error)) from None
    except BoundedJSONError as error:
        raise ExpressionError(f"its result cannot be stored: {error}") from None
    except JMESPathError as error:
        raise ExpressionError(_shortened(str(error))) from error
    except RecursionError:
        raise ExpressionError(TOO_DEEP) from None
    except Exception as error:
        # The library does not catch Python errors, such as a slice with step 0 or mixed types.
        raise ExpressionError(_shortened(f"{type(error).__name__}: {error}")) from error
    return result


def _type_error(error: JMESPathTypeError) -> str:
    """Return the library's message without the value, which may have any size."""
    return (
        f"In function {error.function_name}(), invalid type for value, expected one of: "
        f'{error.expected_types}, received: "{error.actual_type}"'
    )


def _shortened(message: str) -> str:
    return message if len(message) <= _MESSAGE_LENGTH else f"{message[:_MESSAGE_LENGTH]} …"


class _Meter:
    """Charges the work of an evaluation to a budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        # Keep a reference to the value, so that Python does not reuse its id.
        self._sizes: dict[int, tuple[Any, int]] = {}

    def size(self, value: Any) -> int:
        """Return the bytes of `value`; shared parts count as often as they appear.

        Raises:
            BudgetExceeded: as soon as the size is over the budget, without walking the rest.
        """
        return self._size(value, 0)

    def _size(self, value: Any, depth: int) -> int:
        if isinstance(value, str):
            size = _ENTRY_BYTES + len(value)
        elif isinstance(value, dict | list | tuple):
            return self._container_size(value, depth)
        elif isinstance(value, int):
            digits = value.bit_length() // 3
            self.digits(digits)
            size = _ENTRY_BYTES + digits
        else:
            return _ENTRY_BYTES
        self.budget.check_size(size)
        return size

    def _container_size(self, value: Any, depth: int) -> int:
        if (known := self._sizes.get(id(value))) is not None:
            return known[1]
        if depth > _VALUE_DEPTH:
            raise ExpressionError(TOO_DEEP)
        budget = self.budget
        budget.charge(1 + len(value) // _ENTRIES_A_STEP)
        size = _ENTRY_BYTES
        if isinstance(value, dict):
            size += sum(map(len, value))
            value_parts = value.values()
        else:
            value_parts = value
        for part in value_parts:
            size += self._size(part, depth + 1)
            if size > budget.max_bytes:
                budget.check_size(size)
        self._sizes[id(value)] = (value, size)
        return size

    def digits(self, count: int) -> None:
        """Charge for parsing or writing a whole number: the time is quadratic in its length."""
        self.budget.charge(count * count // _DIGITS_A_STEP)

    def comparison(self, left: Any, right: Any) -> None:
        """Charge for `left == right` or `left < right`: they stop where the shorter one ends."""
        self.budget.charge(_CALL_STEPS)
        if isinstance(left, str) and isinstance(right, str):
            self.budget.charge(min(len(left), len(right)) // _CHARACTERS_A_STEP)
        elif _may_be_equal(left, right):
            self.budget.charge(min(self.size(left), self.size(right)) // _BYTES_A_STEP)

    def copy(self, value: Any) -> None:
        """Charge for reading each entry or character of a value once."""
        if isinstance(value, str):
            self.budget.charge(len(value) // _CHARACTERS_A_STEP)
        elif isinstance(value, dict | list):
            self.budget.charge(len(value) // _ENTRIES_A_STEP)

    def sorting(self, keys: list[Any]) -> None:
        """Charge for sorting `keys`."""
        count = len(keys)
        longest = max((len(key) for key in keys if isinstance(key, str)), default=0)
        each = 1 + longest // _CHARACTERS_A_STEP
        self.budget.charge(int(count * log2(count + 1) * each) // _ENTRIES_A_STEP)


def _may_be_equal(left: Any, right: Any) -> bool:
    """Return whether a comparison has to look into the two values."""
    if not isinstance(left, dict | list) or type(left) is not type(right):
        return False
    return len(left) == len(right)


class _Functions(Functions):
    """The functions of JMESPath; each call is charged before it runs."""

    def __init__(self, meter: _Meter) -> None:
        super().__init__()
        self._meter = meter

    def call_function(self, function_name: str, resolved_args: Iterable[Any]) -> Any:
        arguments = list(resolved_args)
        self._meter.budget.charge(_CALL_STEPS)
        self._charge(function_name, arguments)
        result = super().call_function(function_name, arguments)
        if isinstance(result, str):
            self._meter.budget.check_size(len(result))
            self._meter.copy(result)
        return result

    def _charge(self, name: str, arguments: list[Any]) -> None:
        if name not in _CONSTANT_TIME:
            for each in arguments:
                self._meter.copy(each)
        charge = _CHARGES.get(name)
        if charge is not None:
            charge(self._meter, arguments)


def _charge_contains(meter: _Meter, arguments: list[Any]) -> None:
    if len(arguments) != 2:
        return
    subject, wanted = arguments
    if isinstance(subject, list) and isinstance(wanted, str):
        meter.budget.charge(len(subject) * (len(wanted) // _CHARACTERS_A_STEP))
    elif isinstance(subject, list) and isinstance(wanted, dict | list):
        for each in subject:
            meter.comparison(each, wanted)
    elif isinstance(subject, str) and isinstance(wanted, str):
        factor = min(len(wanted), _SEARCH_FACTOR)
        meter.budget.charge(len(subject) * factor // (_CHARACTERS_A_STEP * 4))


def _charge_join(meter: _Meter, arguments: list[Any]) -> None:
    if len(arguments) == 2 and isinstance(arguments[0], str) and isinstance(arguments[1], list):
        separator, parts = arguments
        size = len(separator) * len(parts)
        size += sum(len(part) for part in parts if isinstance(part, str))
        meter.budget.check_size(size)
        meter.budget.charge(size // _CHARACTERS_A_STEP)


def _charge_to_string(meter: _Meter, arguments: list[Any]) -> None:
    for each in arguments:
        if not isinstance(each, str):
            meter.budget.charge(meter.size(each) // _BYTES_A_STEP)


def _charge_to_number(meter: _Meter, arguments: list[Any]) -> None:
    for each in arguments:
        if isinstance(each, str) and len(each) <= _MAX_DIGITS:
            meter.digits(len(each))


def _charge_sort(meter: _Meter, arguments: list[Any]) -> None:
    for each in arguments:
        if isinstance(each, list):
            meter.sorting(each)


def _charge_by_key(meter: _Meter, arguments: list[Any]) -> None:
    """Charge for sorting by key; the keys are evaluated because their length sets the cost."""
    if len(arguments) == 2 and isinstance(arguments[0], list) and hasattr(arguments[1], "visit"):
        values, key = arguments
        meter.sorting([key.visit(key.expression, each) for each in values])


_CHARGES: Final[Mapping[str, Callable[[_Meter, list[Any]], None]]] = {
    "contains": _charge_contains,
    "join": _charge_join,
    "to_string": _charge_to_string,
    "to_number": _charge_to_number,
    "sort": _charge_sort,
    "min": _charge_sort,
    "max": _charge_sort,
    **dict.fromkeys(_BY_KEY, _charge_by_key),
}


class _Interpreter(TreeInterpreter):
    """JMESPath's interpreter, with a budget."""

    def __init__(self, meter: _Meter) -> None:
        super().__init__(Options(custom_functions=_Functions(meter)))
        self._meter = meter
        self._budget = meter.budget
        self._visit = super().visit

    def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        # `charge(1)` inlined, because this runs for each node and each list entry.
        budget = self._budget
        budget.steps -= 1
        if budget.steps < 0:
            budget.charge(0)
        return self._visit(node, *args, **kwargs)

    def visit_comparator(self, node: Any, value: Any) -> Any:
        left, right = (self.visit(child, value) for child in node["children"])
        self._meter.comparison(left, right)
        compared: Any = ast.comparator(node["value"], ast.literal(left), ast.literal(right))
        return super().visit_comparator(compared, value)

    def visit_flatten(self, node: Any, value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if isinstance(base, list):
            self._meter.copy(base)
            entries = sum(len(each) if isinstance(each, list) else 1 for each in base)
            self._budget.charge(entries // _ENTRIES_A_STEP)
        flat: Any = ast.flatten(ast.literal(base))
        return super().visit_flatten(flat, value)

    def visit_slice(self, node: Any, value: Any) -> Any:
        self._meter.copy(value)
        return super().visit_slice(node, value)


# --- names ----------------------------------------------------------------------------------------

_IDENTIFIERS: Final = ("unquoted_identifier", "quoted_identifier")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
#: After these tokens an expression starts again at the root.
_STARTS: Final = frozenset(
    {"or", "and", "not", "eq", "ne", "lt", "lte", "gt", "gte", "lparen", "comma"}
)
#: From these tokens on, names may belong to a part of the value.
_PARTS: Final = frozenset({"pipe", "filter", "flatten", "star", "lbrace", "expref"})


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier of an expression with its place, and whether it surely is at the root.

    `field_of` is the identifier before its dot, "" without one; a field of a name at the root is
    at the root too if that name is `inputs`.
    """

    text: str
    start: int
    end: int
    is_root: bool
    field_of: str


def names_in(expression: str) -> list[Name]:
    """Return the identifiers of an expression, without functions; [] for an invalid one."""
    try:
        tokens = list(Lexer().tokenize(expression[:MAX_LENGTH]))
    except JMESPathError:
        return []
    found: list[Name] = []
    is_clear, after_root = True, False
    for at, token in enumerate(tokens):
        kind, before = token["type"], tokens[at - 1]["type"] if at else ""
        if kind in _PARTS or (kind == "lbracket" and before == "dot"):
            is_clear = False
        if kind not in _IDENTIFIERS or tokens[at + 1]["type"] == "lparen":
            continue
        starts = not before or before in _STARTS or (before == "lbracket" and at == 1)
        holder = str(tokens[at - 2]["value"]) if before == "dot" and at > 1 else ""
        is_root = is_clear and (starts or (after_root and holder == "inputs"))
        after_root = is_clear and starts
        quoted = _QUOTED.match(expression, token["start"])
        end = quoted.end() if quoted else token["end"]
        found.append(Name(token["value"], token["start"], end, is_root, holder))
    return found
