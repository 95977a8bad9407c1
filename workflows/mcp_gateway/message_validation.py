"""The product's JSON rules for a protocol whose parser is somebody else's.

A message that breaks them inside a tool's arguments goes on without these arguments, with a note of
what is wrong, so that the answer is a tool's error naming the field.  Anything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from workflows.engine.bounded_json import BoundedJSONError, parse

_NOTE: Final = "holdpoint/malformed"
_ARGUMENTS: Final = "params.arguments"


def checked_message(data: bytes) -> bytes:
    """One JSON-RPC message that is safe to parse; raises BoundedJSONError if none can be made."""
    try:
        parse(data)
    except BoundedJSONError as error:
        return _without_arguments(data, error)
    return data


def _without_arguments(data: bytes, error: BoundedJSONError) -> bytes:
    try:
        message = json.loads(data)
        if message["method"] != "tools/call" or not error.path.startswith(_ARGUMENTS):
            raise error
        params = message["params"]
        path = error.path.removeprefix(_ARGUMENTS).removeprefix(".")
        note = {"path": path or "arguments", "message": error.message}
        meta = {**(params.get("_meta") or {}), _NOTE: note}
        params |= {"arguments": {}, "_meta": meta}
        left = json.dumps(message).encode()
        parse(left)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise error from None
    return left


def raise_if_malformed(params: Mapping[str, Any] | None) -> None:
    """Raise the BoundedJSONError that was noted in a call's parameters, if any."""
    meta = (params or {}).get("_meta")
    note = meta.get(_NOTE) if isinstance(meta, Mapping) else None
    if isinstance(note, Mapping):
        raise BoundedJSONError(str(note.get("path", "")), str(note.get("message", "")))
