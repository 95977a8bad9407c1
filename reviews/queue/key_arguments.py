"""The one or two values that tell a review apart in the queue, such as its path or amount."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from reviews.decisions.edits import secret_rules
from reviews.decisions.hold_text import one_line
from reviews.decisions.masking import Rules, is_marked, masked
from workflows.engine.policy import TriggerPhase
from workflows.engine.state import HoldReason
from workflows.models import Hold
from workflows.permissions import capabilities
from workflows.planning.planner import tool_schemas

#: Values of one row, and the characters that a row shows of each.
_MAX_ARGUMENTS: Final = 2
_MAX_SHOWN_CHARACTERS: Final = 48
#: A longer text is a body and tells nothing apart.
_MAX_VALUE_CHARACTERS: Final = 300
_MAX_PAYLOAD_CHARACTERS: Final = 20_000
_MAX_DEPTH: Final = 3
_MAX_CANDIDATES: Final = 60

#: Keys that usually tell calls of one tool apart, the most telling first.
_KEYS: Final = (
    *("path", "file", "filename", "url", "uri", "to", "recipient", "email", "customer"),
    *("amount", "total", "price", "subject", "title", "name", "query", "repo", "branch"),
)
#: Formats of JSON Schema that do.
_FORMATS: Final = ("uri", "uri-reference", "email", "idn-email", "hostname")
_LOWEST_RANK: Final = 100

Path = tuple[str, ...]


def payload_schemas_by_target(holds: Iterable[Hold]) -> Mapping[tuple[str, str], Any]:
    """Map (target, phase) of node reviews to the JSON Schema of their payload.

    Two queries at most, however many holds.
    """
    pairs = {(h.target, h.phase) for h in holds if h.reason == HoldReason.NODE_REVIEW}
    names = {target for target, _phase in pairs}
    # Tools are named `server.tool`; a capability has no dot in its name.
    tools = tool_schemas([name for name in names if "." in name]) if names else {}
    others = [name for name in names if "." not in name and " " not in name]
    codes = capabilities.load(others) if others else {}
    schemas: dict[tuple[str, str], Any] = {}
    for target, phase in pairs:
        known: Any = tools.get(target) or codes.get(target)
        if known is not None:
            before = phase == TriggerPhase.BEFORE_EXECUTION
            schemas[target, phase] = known.input_schema if before else known.output_schema
    return schemas


def key_arguments(hold: Hold, schema: Any) -> tuple[tuple[str, str], ...]:
    """Return up to two (name, text) of a node review's payload; secrets are never chosen.

    The workflow's `key_arguments` come first, then properties with `x-key` in their schema, then
    known names and formats, then the first short values.  `hold.execution` is loaded.
    """
    if hold.reason != HoldReason.NODE_REVIEW:
        return ()
    if isinstance(hold.payload, str):
        # Cut after masking: part of a secret may not be recognized as a secret.
        whole = hold.payload if len(hold.payload) <= _MAX_PAYLOAD_CHARACTERS else ""
        candidates: list[tuple[int, Path, Any]] = [(0, (), whole)]
    else:
        wanted = [tuple(str(each).split(".")) for each in _setting(hold)]
        found = _candidates((), hold.payload, schema, wanted)
        candidates = sorted(found, key=lambda each: each[0])
    rules = secret_rules(hold.execution, schema)
    shown: list[tuple[str, str]] = []
    for _rank, path, value in candidates:
        text = _shown(path, value, rules)
        if text:
            shown.append((path[-1] if path else "", text))
        if len(shown) == _MAX_ARGUMENTS:
            break
    return tuple(shown)


def _setting(hold: Hold) -> Sequence[Any]:
    found = hold.execution.policy.get("key_arguments", ())
    return found if isinstance(found, list) else ()


def _candidates(
    path: Path, value: Any, schema: Any, wanted: Sequence[Path]
) -> Iterator[tuple[int, Path, Any]]:
    """Yield the scalars of an object with their rank, the smallest first choice."""
    if not isinstance(value, dict) or len(path) >= _MAX_DEPTH:
        return
    properties = schema.get("properties") if isinstance(schema, dict) else None
    schemas = properties if isinstance(properties, dict) else {}
    for key, item in list(value.items())[:_MAX_CANDIDATES]:
        place = (*path, key)
        if isinstance(item, dict):
            yield from _candidates(place, item, schemas.get(key), wanted)
        elif _is_short(item):
            yield _rank(place, item, schemas.get(key), wanted), place, item


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= _MAX_VALUE_CHARACTERS and "\n" not in value.strip()
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rank(path: Path, value: Any, schema: Any, wanted: Sequence[Path]) -> int:
    if path in wanted:
        return wanted.index(path) - len(wanted)
    rules = schema if isinstance(schema, dict) else {}
    if rules.get("x-key") is True:
        return 0
    key = path[-1].lower()
    if key in _KEYS:
        return 1 + _KEYS.index(key)
    if rules.get("format") in _FORMATS:
        return 1 + len(_KEYS)
    return _LOWEST_RANK + len(path)


def _shown(path: Path, value: Any, rules: Rules) -> str:
    """Return a value as text, or "" if it is a secret; masked at its place in the payload."""
    whole = value
    for key in reversed(path):
        whole = {key: whole}
    view: Any = masked(whole, rules).value
    for key in path:
        # A secret can stand in a key, too; then the key has changed.
        view = view.get(key) if isinstance(view, dict) else None
    text = "" if view is None else one_line(view, _MAX_SHOWN_CHARACTERS)
    return "" if is_marked(str(view)) else text
