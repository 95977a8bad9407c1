"""Summaries of the layer that ended and the next one, for the person who approves the next."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from workflows.common.redaction import redact, redact_text
from workflows.engine.plans.dag import AnyTask
from workflows.engine.protocol.ports import Run
from workflows.engine.values.bounded_json import JSON

#: 900 tokens of four characters, below the limit of 1,000 tokens for a summary.
_SUMMARY_LENGTH: Final = 3_600
_MAX_LINES: Final = 12
_MAX_NAME_LENGTH: Final = 40


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A task in a summary; `status` is a TaskStatus, `permission` the name of a permission set."""

    id: str
    tool: str = ""
    status: str = "SUCCEEDED"
    error: str = ""
    permission: str = ""
    arguments: JSON = None


def one_line(value: JSON, longest: int = 80) -> str:
    """Return a value on one line of at most `longest` characters; large values cost no more."""
    cut = _Pruner(4 * longest).prune(value)
    text = cut if isinstance(cut, str) else json.dumps(cut, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def layer_summary(
    done: Sequence[TaskLine],
    results: Mapping[str, JSON],
    next_tasks: Sequence[TaskLine],
    *,
    layer: int | None = None,
    layers: int | None = None,
) -> str:
    """Summarize the layer that ended and the next one, in at most about 1,000 tokens.

    Excerpts of results use the space that is left, so long results make a summary of at least 500
    tokens.  Secrets and personal data are redacted.  `results` maps task ids to outputs; `layer`
    is 1-based.
    """
    shown_done = sorted(done, key=lambda task: task.status == "SUCCEEDED")[:_MAX_LINES]
    shown_next = next_tasks[:_MAX_LINES]
    heads = [*map(_done_head, shown_done), *map(_next_head, shown_next)]
    opening = [_opening(done, layer, layers), "", "Done:"]
    middle = [*_rest(len(done) - len(shown_done)), "", _coming(next_tasks)]
    closing = [*_rest(len(next_tasks) - len(shown_next)), "", _closing(next_tasks)]
    fixed = [*opening, *heads, *middle, *closing]
    room = _SUMMARY_LENGTH - sum(len(line) + 3 for line in fixed)
    values = [task.error or results.get(task.id) for task in shown_done]
    excerpts = _excerpts([*values, *(task.arguments for task in shown_next)], room)
    lines = [head + excerpt for head, excerpt in zip(heads, excerpts, strict=True)]
    split = len(shown_done)
    return "\n".join([*opening, *lines[:split], *middle, *lines[split:], *closing])


class _Pruner:
    """Copies as much of a value as fits into `room` characters."""

    def __init__(self, room: int) -> None:
        self._room = room

    def prune(self, value: Any, depth: int = 0) -> Any:
        self._room -= 4
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            if depth > 4 and value:
                return "{…}"
            pruned: dict[str, Any] = {}
            for key, item in value.items():
                if self._room <= 0:
                    pruned["…"] = f"{len(value) - len(pruned)} more"
                    break
                pruned[self._text(key)] = self.prune(item, depth + 1)
            return pruned
        if isinstance(value, (list, tuple)):
            return "[…]" if depth > 4 and value else self._items(value, depth)
        return value if not isinstance(value, int) or abs(value) < 10**30 else "a long number"

    def _items(self, value: Sequence[Any], depth: int) -> list[Any]:
        items: list[Any] = []
        for item in value:
            if self._room <= 0:
                return [*items, f"… {len(value) - len(items)} more"]
            items.append(self.prune(item, depth + 1))
        return items

    def _text(self, text: str) -> str:
        room = max(16, self._room)
        self._room -= min(len(text), room)
        if len(text) <= room:
            return " ".join(text.split())
        # Cut between words only: part of a secret may not be recognized as a secret.
        cut = text[:room]
        return " ".join([*cut.split()[: None if text[room].isspace() else -1], "…"])


def _excerpts(values: Sequence[JSON], room: int) -> list[str]:
    """Return excerpts of all values within `room` characters, shared according to their length."""
    share = room // max(1, len(values))
    texts = [_excerpt(value, share) for value in values]
    cut = [at for at, text in enumerate(texts) if "…" in text]
    if cut:
        more = share + (room - sum(map(len, texts))) // len(cut)
        for at in cut:
            texts[at] = _excerpt(values[at], more)
    return texts


def _excerpt(value: JSON, longest: int) -> str:
    if value is None or longest < 12:
        return ""
    return f": {one_line(redact(_Pruner(4 * longest).prune(value)), longest - 2)}"


def _opening(done: Sequence[TaskLine], layer: int | None, layers: int | None) -> str:
    which = "A layer" if layer is None else f"Layer {layer}"
    which += f" of {layers}" if layer is not None and layers is not None else ""
    counts: dict[str, int] = {}
    for task in done:
        counts[task.status] = counts.get(task.status, 0) + 1
    outcome = ", ".join(f"{counted(n, 'task')} {status.lower()}" for status, n in counts.items())
    return f"{which} is done: {outcome or 'it had no tasks'}."


def _done_head(task: TaskLine) -> str:
    return f"- {_name(task.id)}{_tool(task)} {task.status.lower()}"


def _next_head(task: TaskLine) -> str:
    permission = f", permission {_name(task.permission)}" if task.permission else ""
    return f"- {_name(task.id)}{_tool(task)}{permission}"


def _tool(task: TaskLine) -> str:
    return (
        f" ({_name(short_name(task.tool))})"
        if task.tool and short_name(task.tool) != task.id
        else ""
    )


def _closing(next_tasks: Sequence[TaskLine]) -> str:
    if not next_tasks:
        return "Approving finishes the run."
    return f"Approving runs {'this task' if len(next_tasks) == 1 else 'these tasks'}."


def _coming(next_tasks: Sequence[TaskLine]) -> str:
    return f"Next: {counted(len(next_tasks), 'task')}." if next_tasks else "Next: the end."


def _rest(number: int) -> list[str]:
    return [f"- and {number} more"] if number > 0 else []


def _name(text: str, longest: int = _MAX_NAME_LENGTH) -> str:
    return one_line(redact_text(text[: 4 * longest]), longest)


def short_name(tool: str) -> str:
    """Return a tool's name without its server: "git_log" for "git.git_log"."""
    return tool.rpartition(".")[2]


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def summarise(run: Run) -> str:
    """Return the `layer_summary` of an execution's present layer and the next one."""
    layers, layer = run.revision.layers, run.state.layer
    done = run.finished_tasks(layers[layer]) if layer >= 0 else {}
    by_id = run.revision.plan.by_id
    following = run.revision.tasks(layer + 1) if layer + 1 < len(layers) else ()
    return layer_summary(
        [_line(by_id[name], status=each.status.value) for name, each in done.items()],
        {name: each.output for name, each in done.items()},
        [_line(task) for task in following],
        layer=layer + 1 if layer >= 0 else None,
        layers=len(layers),
    )


def _line(task: AnyTask, *, status: str = "") -> TaskLine:
    return TaskLine(
        id=task.id,
        tool=task.target,
        status=status,
        permission=task.permission_set or "",
        arguments=None if status else dict(task.values),
    )
