"""JSON parser for untrusted documents, canonical JSON text, and digests of it.

A document that passes is safe to store in PostgreSQL's jsonb, to send to a browser and to hash: it
is bounded in size and depth, and has only finite numbers, no NUL, no lone surrogate and no
duplicate key.  The limits are in `json_limits`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Generator
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from .json_limits import (
    DEFAULT,
    JSON,
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
    "BoundedJSONError",
    "Limits",
    "canonical",
    "check_value",
    "digest",
    "parse",
    "path_text",
]


class _Suspicious(Exception):
    """The fast parser found an error, which the slow parser then locates."""


def parse(data: bytes | str, *, limits: Limits = DEFAULT) -> JSON:
    """Parse one UTF-8 JSON document; raises BoundedJSONError with the error and its path."""
    raw, text = _decoded(data, limits)
    outline, oversize = _outline(raw, limits)
    _check_depth(outline, text, limits)
    try:
        if not oversize and _looks_plain(raw, outline, limits):
            try:
                return _parse_plain(text, outline.count(b":"))
            except _Suspicious:
                pass
        value = _careful_decoder(limits).decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        message = f"is not valid JSON ({error.msg}, {where})"
        raise BoundedJSONError(_path_at(text, error.pos), message) from None
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


def _decoded(data: bytes | str, limits: Limits) -> tuple[bytes, str]:
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
    return raw, text


def _as_bytes(data: bytes | str) -> bytes:
    if not isinstance(data, str):
        return bytes(data)
    try:
        return data.encode()
    except UnicodeEncodeError as error:
        where = _path_at(data, error.start)
        raise BoundedJSONError(where, "has half of a surrogate pair") from None


def _outline(raw: bytes, limits: Limits) -> tuple[bytes, bool]:
    """Return the text outside of strings, and whether a key or string may be too long."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"..").replace(b'\\"', b"..")
    pieces = raw.split(b'"')
    longest = max(map(len, pieces[1::2]), default=0)
    oversize = longest > limits.string_length or (
        longest > limits.key_length and _has_long_key(pieces, limits.key_length)
    )
    return b"".join(pieces[::2]), oversize


def _has_long_key(pieces: list[bytes], longest: int) -> bool:
    after = iter(pieces[2::2])
    return any(
        len(piece) > longest and follower.lstrip().startswith(b":")
        for piece, follower in zip(pieces[1::2], after, strict=False)
    )


def _check_depth(outline: bytes, text: str, limits: Limits) -> None:
    """Refuse deep nesting before a recursive parser sees it."""
    if outline.count(b"[") + outline.count(b"{") <= limits.depth:
        return
    brackets = inner = outline.translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(limits.depth):
        inner = inner.replace(b"\x01\x02", b"")
        if not inner:
            return
    depth = 0
    for bracket in brackets:
        depth += 1 if bracket == 1 else -1
        if depth > limits.depth:
            raise BoundedJSONError(_path_of_level(text, limits.depth), too_deep(limits))


def _looks_plain(raw: bytes, outline: bytes, limits: Limits) -> bool:
    """Return whether the document is valid except for possible duplicate keys or NaN."""
    if outline.count(b",") + outline.count(b"[") + outline.count(b"{") >= limits.nodes:
        return False
    if b"\\" in raw and _BAD_ESCAPE.search(raw):
        return False
    shape = outline.translate(_NUMBER_SHAPE, b"+")
    return b"0e000" not in shape and b"0" * min(200, limits.int_digits + 1) not in shape


def _parse_plain(text: str, keys: int) -> JSON:
    """Parse a document with `keys` keys in total; raise _Suspicious for a duplicate key or NaN.

    Counting with a generator's `send` as the hook adds a sixth to the parsing time, less than any
    other hook.
    """
    counter = _count_keys()
    next(counter)
    decoder = json.JSONDecoder(object_hook=counter.send, parse_constant=_refuse_constant)
    value = decoder.decode(text)
    if counter.send(None) != keys:
        raise _Suspicious
    return value


def _count_keys() -> Generator[Any, dict[str, Any] | None, None]:
    total = 0
    found = yield
    while found is not None:
        total += len(found)
        found = yield found
    yield total


def _refuse_constant(name: str) -> Any:
    raise _Suspicious


# Keyed by the limits; bounded by 16; never stale, because the decoder has no state.
@lru_cache(maxsize=16)
def _careful_decoder(limits: Limits) -> json.JSONDecoder:
    """Return a decoder that replaces errors by markers, so that check_value reports their paths."""

    def whole(digits: str) -> int | HugeInt:
        if len(digits.lstrip("-")) > limits.int_digits:
            return HugeInt()
        try:
            return int(digits)
        except ValueError:
            return HugeInt()

    return json.JSONDecoder(object_pairs_hook=_fold_or_mark, parse_int=whole)


def _fold_or_mark(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, item in pairs:
        found[key] = Duplicate() if key in found else item
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
_BAD_ESCAPE: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_BRACKETS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\x02\x02")
_NOT_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[{]}")))
#: Digits become 0 and E becomes e, so that a byte search finds numbers that may overflow.
_NUMBER_SHAPE: Final = bytes.maketrans(b"123456789E", b"000000000e")
