"""The values that tell reviews apart, such as a path or an amount: of a row, and of each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.decisions.edits import secret_rules
from reviews.decisions.hold_text import one_line
from reviews.decisions.masking import Rules, is_marked, masked
from workflows.engine.plans.diff import change_in_payload
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.executions.layer_summaries import short_name
from workflows.models import Hold
from workflows.permissions import capabilities
from workflows.planning.planner import tool_schemas

#: Values of one row and of one task of several, and the characters that are shown of each.
_MAX_ARGUMENTS: Final = 2
_MAX_TASK_ARGUMENTS: Final = 4
#: Tasks of a layer or plan change that are listed with their values.
_MAX_TASKS: Final = 12
_MAX_SHOWN_CHARACTERS: Final = 48
#: A longer text is a body and tells nothing apart.
_MAX_VALUE_CHARACTERS: Final = 300
_MAX_PAYLOAD_CHARACTERS: Final = 20_000
_MAX_DEPTH: Final = 3
_MAX_CANDIDATES: Final = 60

_BEFORE = TriggerPhase.BEFORE_EXECUTION.value

#: Keys that usually tell calls of one tool apart, the most telling first.
_KEYS: Final = (
    *("path", "file", "filename", "url", "uri", "to", "recipient", "email", "customer"),
    *("amount", "total", "price", "subject", "title", "name", "query", "repo", "branch"),
)
#: Formats of JSON Schema that do.
_FORMATS: Final = ("uri", "uri-reference", "email", "idn-email", "hostname")
_LOWEST_RANK: Final = 100

Path = tuple[str, ...]
Arguments = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TaskArguments:
    """One task of a layer or plan change, with the values that tell it apart."""

    title: str
    arguments: Arguments


def payload_schemas_by_target(holds: Iterable[Hold]) -> Mapping[tuple[str, str], Any]:
    """Map (target, phase) of reviewed tasks to the JSON Schema of what is reviewed.

    The tasks of layers and plan changes have not run.  Two queries at most, however many holds.
    """
    pairs = set()
    for hold in holds:
        if hold.reason == HoldReason.NODE_REVIEW:
            pairs.add((hold.target, hold.phase))
        pairs.update((task["target"], _BEFORE) for task in _tasks(hold)[:_MAX_TASKS])
    names = {target for target, _phase in pairs}
    # Tools are named `server.tool`; a capability has no dot in its name.
    tools = tool_schemas([name for name in names if "." in name]) if names else {}
    others = [name for name in names if "." not in name and " " not in name]
    codes = capabilities.load(others) if others else {}
    schemas: dict[tuple[str, str], Any] = {}
    for target, phase in pairs:
        known: Any = tools.get(target) or codes.get(target)
        if known is not None:
            before = phase == _BEFORE
            schemas[target, phase] = known.input_schema if before else known.output_schema
    return schemas


def key_arguments(hold: Hold, schema: Any) -> Arguments:
    """Return up to two (name, text) of a node review's payload; secrets are never chosen.

    The workflow's `key_arguments` come first, then properties with `x-key` in their schema, then
    known names and formats, then the first short values.  `hold.execution` is loaded.
    """
    if hold.reason != HoldReason.NODE_REVIEW:
        return ()
    return _arguments(hold, hold.payload, schema, _MAX_ARGUMENTS)


def task_arguments(hold: Hold, schemas: Mapping[tuple[str, str], Any]) -> tuple[TaskArguments, ...]:
    """Return the tasks of a layer or plan change with the values of each; () for other holds.

    They are for a person who decides several reviews at once.  `schemas` are those of
    `payload_schemas_by_target`.
    """
    tasks = _tasks(hold)
    lines = [
        TaskArguments(
            _("%(task)s: %(tool)s") % {"task": task["title"], "tool": short_name(task["target"])},
            _arguments(
                hold, task["inputs"], schemas.get((task["target"], _BEFORE)), _MAX_TASK_ARGUMENTS
            ),
        )
        for task in tasks[:_MAX_TASKS]
    ]
    rest = len(tasks) - _MAX_TASKS
    if rest > 0:
        more = ngettext("%(n)s more task", "%(n)s more tasks", rest) % {"n": rest}
        lines.append(TaskArguments(more, ()))
    return tuple(lines)


def _tasks(hold: Hold) -> list[dict[str, Any]]:
    """Return the tasks that a layer approval or a plan review is about: title, target, inputs."""
    payload = hold.payload if isinstance(hold.payload, dict) else {}
    if hold.reason == HoldReason.LAYER_APPROVAL:
        return [
            {"title": task["id"], "target": task["target"], "inputs": task["inputs"]}
            for task in payload.get("next_layer") or ()
        ]
    if hold.reason == HoldReason.REPLAN_REVIEW:
        change = change_in_payload(payload)
        return [
            {"title": task.label, "target": task.target, "inputs": dict(task.values)}
            for task in (*change.added, *change.changed)
        ]
    return []


def _arguments(hold: Hold, payload: Any, schema: Any, most: int) -> Arguments:
    if isinstance(payload, str):
        # Cut after masking: part of a secret may not be recognized as a secret.
        whole = payload if len(payload) <= _MAX_PAYLOAD_CHARACTERS else ""
        candidates: list[tuple[int, Path, Any]] = [(0, (), whole)]
    else:
        wanted = [tuple(str(each).split(".")) for each in _setting(hold)]
        found = _candidates((), payload, schema, wanted)
        candidates = sorted(found, key=lambda each: each[0])
    rules = secret_rules(hold.execution, schema)
    shown: list[tuple[str, str]] = []
    for _order, path, value in candidates:
        text = _shown(path, value, rules)
        if text:
            shown.append((path[-1] if path else "", text))
        if len(shown) == most:
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
        if isinstance(item, dict) and isinstance(item.get("$from"), str):
            yield _rank(place, item, schemas.get(key), wanted), place, f"$from {item['$from']}"
        elif isinstance(item, dict):
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
