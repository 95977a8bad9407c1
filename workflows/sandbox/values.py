"""Results and captured output of sandboxed programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from workflows.engine.values.bounded_json import DEFAULT, JSON, BoundedJSONError, parse

from .denials import storable, task_failure


def parsed_result(text: str) -> JSON:
    """Parse the program's JSON value with bounds; raise TaskFailed if it is invalid."""
    try:
        return parse(text)
    except BoundedJSONError as error:
        raise task_failure(f"The result is not acceptable JSON: {error}") from None


def python_result(value: Any) -> JSON:
    """Convert a value of the Python sandbox to JSON. Tuples become lists; other types fail."""
    _check_size(value)
    try:
        text = json.dumps(value, allow_nan=False, default=_reject)
    except (TypeError, ValueError, RecursionError) as error:
        raise task_failure(f"The result is not JSON: {error}") from None
    return parsed_result(text)


def _reject(value: Any) -> Any:
    name = getattr(value, "name", None) if type(value).__module__ == "pydantic_monty" else None
    raise TypeError(f"a {name or type(value).__name__} has no JSON form")


def _check_size(value: Any) -> None:
    """Raise TaskFailed for a value that is too large, before it is serialized.

    Parts of a value may be shared, so that a small value can have an enormous serialization.
    """
    pending, count, characters = [value], 0, 0
    while pending:
        item = pending.pop()
        count += 1
        if isinstance(item, Mapping):
            if not all(isinstance(key, str) for key in item):
                raise task_failure("The result is not JSON: every key of a dict must be a str")
            characters += sum(map(len, item))
            pending.extend(item.values())
        elif isinstance(item, list | tuple):
            pending.extend(item)
        elif isinstance(item, str):
            characters += len(item)
        if count > DEFAULT.nodes or characters > DEFAULT.max_bytes:
            raise task_failure("The result is too large")


class CapturedOutput:
    """Output of a program on one stream: the first `limit` bytes, and the total number."""

    def __init__(self, limit: int) -> None:
        self._limit, self._data, self.total = limit, bytearray(), 0

    def add(self, data: bytes) -> None:
        """Append bytes."""
        self.total += len(data)
        self._data += data[: max(self._limit - len(self._data), 0)]

    def text(self) -> str:
        """Return the captured output, with a last line about dropped bytes if there are any."""
        text = storable(self._data.decode("utf-8", "replace"))
        dropped = self.total - len(self._data)
        return f"{text}\n[{dropped} more bytes were not kept]" if dropped else text
