"""Limits of JSON values (size, depth, numbers, text), and the check of a parsed value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, TypeAlias

#: Above every ordinary number and below infinity.
_HUGE: Final = 10**300
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,59}")

#: None, bool, int, float, str, list of JSON, or dict from str to JSON.
JSON: TypeAlias = Any

#: Keys and 0-based indexes from the root down to a value.
Path: TypeAlias = Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum size of one document.

    `max_bytes` counts UTF-8 bytes; `depth` counts containers inside each other, the root included;
    `nodes` counts values, containers included, keys not; `key_length` and `string_length` count
    characters; `int_digits` counts decimal digits of a whole number.
    """

    max_bytes: int = 1024 * 1024
    depth: int = 64
    nodes: int = 10_000
    key_length: int = 256
    string_length: int = 256 * 1024
    int_digits: int = 1_000


DEFAULT: Final = Limits()
#: A document with a plan: five values for each of the most tasks (`dag.MAX_TASKS`).
WITH_PLAN: Final = Limits(nodes=100_000)


class BoundedJSONError(ValueError):
    """A value exceeds a limit: `path` (`edits.items[3].name`, "" is the root) and `message`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.message = message


class Duplicate:
    """Marker of the parser for a duplicate key."""


class HugeInt:
    """Marker of the parser for a whole number with too many digits."""


def check_value(value: JSON, limits: Limits = DEFAULT) -> None:
    """Check a parsed value against `limits`, without recursion; raises BoundedJSONError.

    Tuples count as arrays.  `max_bytes` is compared with a lower bound of the size of the value's
    JSON text.
    """
    if not _is_plain_value(value, limits):
        _check_each(value, limits)


def path_text(path: Path) -> str:
    """Write a path for people: `items[3].name`, keys with other characters as `["odd key"]`."""
    text = "".join(_step(part) for part in path).removeprefix(".")
    return text if len(text) <= 300 else f"{text[:140]} … {text[-140:]}"


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _PLAIN_KEY.fullmatch(part):
        return f".{part}"
    shown = part if len(part) <= 60 else f"{part[:57]}..."
    return f"[{json.dumps(shown)}]"


def too_big(limits: Limits) -> str:
    return f"is larger than {limits.max_bytes} bytes"


def too_deep(limits: Limits) -> str:
    return f"is nested more than {limits.depth} levels deep"


def _is_plain_value(value: JSON, limits: Limits) -> bool:
    """Check level by level: True if the value is valid, False if `_check_each` must decide."""
    texts: list[str] = []
    numbers: list[float] = []
    nodes, level = 1, [value]
    for depth in range(limits.depth + 1):
        deeper: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind is dict or kind is list:
                nodes += len(item)
                if nodes > limits.nodes or depth == limits.depth:
                    return False
                if kind is dict and not _add_keys(item, texts, limits):
                    return False
                deeper.extend(item.values() if kind is dict else item)
            elif kind is int or kind is float:
                numbers.append(item)
            elif item is not None and kind is not bool:
                return False
        if not deeper:
            return _are_plain(texts, numbers, limits.max_bytes - nodes, limits)
        level = deeper
    return False


def _add_keys(item: dict[Any, Any], texts: list[str], limits: Limits) -> bool:
    try:
        longest = max(map(len, item), default=0)
    except TypeError:
        return False
    texts.extend(item)
    return longest <= limits.key_length


def _are_plain(texts: list[str], numbers: list[float], room: int, limits: Limits) -> bool:
    if max(map(len, texts), default=0) > limits.string_length:
        return False
    try:
        together = "".join(texts)
        together.isascii() or together.encode()
    except (TypeError, UnicodeEncodeError):
        return False
    huge = _HUGE if limits.int_digits >= 300 else 10**limits.int_digits
    return (
        len(together) <= room
        and "\x00" not in together
        and all(-huge < number < huge for number in numbers)
    )


def _check_each(value: JSON, limits: Limits) -> None:
    """Walk in document order and raise for the first error, with its path."""
    size = nodes = 0
    here: list[str | int] = []
    stack: list[Iterator[tuple[str | int, Any]]] = [iter([("", value)])]
    while stack:
        for key, item in stack[-1]:
            here[len(stack) - 2 :] = [key] if len(stack) > 1 else []
            nodes += 1
            size += 1 + _length(item) + _length(key)
            if nodes > limits.nodes:
                raise BoundedJSONError(path_text(here), f"has more than {limits.nodes} values")
            if size > limits.max_bytes:
                raise BoundedJSONError(path_text(here), too_big(limits))
            if isinstance(item, (dict, list, tuple)):
                if len(stack) > limits.depth:
                    raise BoundedJSONError(path_text(here), too_deep(limits))
                _check_keys(item, here, limits)
                stack.append(_children(item))
                break
            _check_scalar(item, here, limits)
        else:
            stack.pop()


def _length(item: Any) -> int:
    return len(item) if isinstance(item, str) else 0


def _children(item: Any) -> Iterator[tuple[str | int, Any]]:
    return iter(item.items()) if isinstance(item, dict) else enumerate(item)


def _check_keys(item: Any, here: Path, limits: Limits) -> None:
    if not isinstance(item, dict):
        return
    for key in item:
        if not isinstance(key, str):
            raise BoundedJSONError(path_text(here), f"has a key that is not text ({key!r:.60})")
        if len(key) > limits.key_length:
            raise BoundedJSONError(
                path_text([*here, key]), f"has a key longer than {limits.key_length} characters"
            )
        _check_text(key, [*here, key], "key")


def _check_scalar(item: Any, here: Path, limits: Limits) -> None:
    if item is None or isinstance(item, bool):
        return
    if isinstance(item, str):
        if len(item) > limits.string_length:
            message = f"is longer than {limits.string_length} characters"
            raise BoundedJSONError(path_text(here), message)
        _check_text(item, here, "text")
    else:
        _check_number(item, here, limits)


def _check_text(text: str, here: Path, what: str) -> None:
    if "\x00" in text:
        raise BoundedJSONError(path_text(here), f"has a NUL character in its {what}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            message = f"has half of a surrogate pair in its {what}"
            raise BoundedJSONError(path_text(here), message) from None


def _check_number(item: Any, here: Path, limits: Limits) -> None:
    if isinstance(item, float):
        if not isfinite(item):
            raise BoundedJSONError(path_text(here), "is not a finite number")
    elif isinstance(item, int):
        if item.bit_length() > 3 * limits.int_digits and abs(item) >= 10**limits.int_digits:
            raise BoundedJSONError(path_text(here), too_long(limits))
    elif isinstance(item, HugeInt):
        raise BoundedJSONError(path_text(here), too_long(limits))
    elif isinstance(item, Duplicate):
        raise BoundedJSONError(path_text(here), "is given twice in the same object")
    else:
        kind = type(item).__name__
        raise BoundedJSONError(path_text(here), f"is a {kind}, which JSON cannot hold")


def too_long(limits: Limits) -> str:
    return f"is a whole number of more than {limits.int_digits} digits"
