"""Values and printed text on their way out of the sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workflows.engine.bounded_json import DEFAULT, JSON, BoundedJSONError, parse

from .denials import failed, storable


def parsed_result(text: str) -> JSON:
    """The program's JSON value through the bounded parser; TaskFailed says what is wrong."""
    try:
        return parse(text)
    except BoundedJSONError as error:
        raise failed(f"The result is not acceptable JSON: {error}") from None


def python_result(value: Any) -> JSON:
    """A value of the Python sandbox as JSON. Tuples become lists; anything else foreign fails."""
    _measure(value)
    try:
        text = json.dumps(value, allow_nan=False, default=_refuse)
    except (TypeError, ValueError, RecursionError) as error:
        raise failed(f"The result is not JSON: {error}") from None
    return parsed_result(text)


def _refuse(value: Any) -> Any:
    name = getattr(value, "name", None) if type(value).__module__ == "pydantic_monty" else None
    raise TypeError(f"a {name or type(value).__name__} has no JSON form")


def _measure(value: Any) -> None:
    """Refuse what would be too large when written out, before it is: parts may be shared, and a
    list of a few lines then stands for more text than any machine holds.
    """
    pending, count, characters = [value], 0, 0
    while pending:
        item = pending.pop()
        count += 1
        if isinstance(item, Mapping):
            if not all(isinstance(key, str) for key in item):
                raise failed("The result is not JSON: every key of a dict must be a str")
            characters += sum(map(len, item))
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
        elif isinstance(item, str):
            characters += len(item)
        if count > DEFAULT.nodes or characters > DEFAULT.max_bytes:
            raise failed("The result is too large")


class Printed:
    """What a program printed on one stream: its first `keep` bytes, and how much there was."""

    def __init__(self, keep: int) -> None:
        self._keep, self._kept, self.total = keep, bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take in the next bytes."""
        self.total += len(data)
        self._kept += data[: max(self._keep - len(self._kept), 0)]

    def text(self) -> str:
        """The kept part as text, with a last line that says so when something was dropped."""
        text = storable(self._kept.decode("utf-8", "replace"))
        dropped = self.total - len(self._kept)
        return f"{text}\n[{dropped} more bytes were not kept]" if dropped else text
