"""Apply the limits of `bounded_json` to messages that the MCP SDK parses.

If only the arguments of a tool call break a limit, the arguments are removed and the error is noted
in the message, so that the client gets a tool error that names the field. Any other message is
rejected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from workflows.engine.values.bounded_json import BoundedJSONError, parse

_NOTE: Final = "holdpoint/malformed"
_ARGUMENTS: Final = "params.arguments"


def checked_message(data: bytes) -> bytes:
    """Return a JSON-RPC message that is safe to parse, or raise BoundedJSONError."""
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
        without_arguments = json.dumps(message).encode()
        parse(without_arguments)
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise error from None
    return without_arguments


def raise_if_malformed(params: Mapping[str, Any] | None) -> None:
    """Raise the BoundedJSONError that `checked_message` noted in the parameters, if any."""
    meta = (params or {}).get("_meta")
    note = meta.get(_NOTE) if isinstance(meta, Mapping) else None
    if isinstance(note, Mapping):
        raise BoundedJSONError(str(note.get("path", "")), str(note.get("message", "")))
