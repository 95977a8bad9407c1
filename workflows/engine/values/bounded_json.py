"""JSON parser for untrusted documents, canonical JSON text, and digests of it.

A document that passes is safe to store in PostgreSQL's jsonb, to send to a browser and to hash: it
is bounded in size and depth, and has only finite numbers, no NUL, no lone surrogate and no
duplicate key.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
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


def parse(data: bytes | str, *, limits: Limits = DEFAULT) -> JSON:
    """Parse one UTF-8 JSON document; raises BoundedJSONError with the error and its path."""
    text = _decoded(data, limits)
    try:
        value = _decoder(limits.int_digits).decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        message = f"is not valid JSON ({error.msg}, {where})"
        raise BoundedJSONError(_path_at(text, error.pos), message) from None
    except RecursionError:
        raise BoundedJSONError(_path_of_level(text, limits.depth), too_deep(limits)) from None
    check_value(value, limits)
    return value


def canonical(value: JSON) -> str:
    """Return the canonical JSON text: sorted keys, ASCII, no spaces, one form per number.

    Whole numbers are written as digits, even if they are floats, because jsonb and browsers turn
    1e16 and 1.0 into whole numbers; other floats have their shortest exact form.  `value` must have
    passed `check_value`; a value that JSON cannot represent raises BoundedJSONError.
    """
    try:
        text = _ENCODE(value)
        if ".0" in text or "e+" in text:
            text = _ENCODE(json.loads(text, parse_float=_one_form))
    except (ValueError, TypeError, RecursionError) as error:
        raise BoundedJSONError("", f"cannot be written as JSON ({error})") from None
    return text


def digest(value: JSON) -> str:
    """Return the SHA-256 of the canonical text, as 64 hex digits."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def _one_form(literal: str) -> int | float:
    number = Decimal(literal)
    return int(number) if number == number.to_integral_value() else float(literal)


def _decoded(data: bytes | str, limits: Limits) -> str:
    """Return the document as text without a byte order mark, once its size is checked."""
    if len(data) > limits.max_bytes:
        raise BoundedJSONError("", too_big(limits))
    raw, text = _as_bytes(data), data
    if not isinstance(text, str):
        raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise BoundedJSONError("", f"is not valid UTF-8 (byte {error.start})") from None
    if len(raw) > limits.max_bytes:
        raise BoundedJSONError("", too_big(limits))
    return text


def _as_bytes(data: bytes | str) -> bytes:
    if not isinstance(data, str):
        return bytes(data)
    try:
        return data.encode()
    except UnicodeEncodeError as error:
        where = _path_at(data, error.start)
        raise BoundedJSONError(where, "has half of a surrogate pair") from None


# Keyed by the digits; bounded by 16; never stale, because the decoder has no state.
@lru_cache(maxsize=16)
def _decoder(int_digits: int) -> json.JSONDecoder:
    """Return a decoder that replaces errors by markers, so that check_value reports their paths."""

    def whole(digits: str) -> int | HugeInt:
        if len(digits.lstrip("-")) > int_digits:
            return HugeInt()
        try:
            return int(digits)
        except ValueError:
            return HugeInt()

    return json.JSONDecoder(object_pairs_hook=_fold_or_mark, parse_int=whole)


def _fold_or_mark(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        found |= {key: Duplicate() for key, count in counts.items() if count > 1}
    return found


def _path_of_level(text: str, depth: int) -> str:
    """Return the path of the first container that is deeper than `depth`."""
    level = 0
    for match in _PIECE.finditer(text):
        level += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if level > depth:
            return _path_at(text, match.start())
    return ""


def _path_at(text: str, end: int) -> str:
    """Return the path of the value at character `end`, from the text before it."""
    frames: list[list[Any]] = []
    last = ""
    for match in _PIECE.finditer(text, 0, end):
        piece = match[0]
        if piece in "[{":
            frames.append([0 if piece == "[" else None])
        elif piece in "]}":
            del frames[-1:]
        elif piece == ":" and frames and not isinstance(frames[-1][0], int):
            frames[-1][0] = last
        elif piece == "," and frames:
            at = frames[-1][0]
            frames[-1][0] = at + 1 if isinstance(at, int) else None
        else:
            last = _unquoted(piece)
    return path_text([frame[0] for frame in frames if frame[0] is not None])


def _unquoted(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted.strip('"')


_ENCODE: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_PIECE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}:,]', re.DOTALL)
