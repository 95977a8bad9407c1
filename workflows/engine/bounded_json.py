"""JSON parser for untrusted documents, canonical JSON text, and digests of it.

A document that passes is safe to store in PostgreSQL's jsonb, to send to a browser and to hash: it
is bounded in size and depth, and has only finite numbers, no NUL, no lone surrogate and no
duplicate key.  The limits are in `json_limits`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from .json_limits import (
    DEFAULT,
    JSON,
    WITH_PLAN,
    BoundedJSONError,
    Duplicate,
    HugeInt,
    Limits,
    check_value,
    path_text,
    too_big,
    too_deep,
)

__all__ = [
    "DEFAULT",
    "JSON",
    "WITH_PLAN",
    "BoundedJSONError",
    "Limits",
    "canonical",
    "check_value",
    "digest",
    "parse",
    "path_text",
]


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
