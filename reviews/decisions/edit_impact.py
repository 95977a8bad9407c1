"""Impact of an edit: the later tasks that read the changed fields, directly or indirectly.

It is derived from the plan's `$from` references and conditions.  An expression that cannot be
analysed counts as reading its whole source: the result may have extra readers, but misses none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.components.json_diffs import Path
from workflows.common.schemas.json_pointer import pointer_keys, to_pointer
from workflows.engine.plans.dag import Plan, is_reference
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.engine.values.bounded_json import path_text
from workflows.engine.values.expressions import ExpressionError, compiled
from workflows.executions.selectors import revision_of, speculative_results_behind
from workflows.models import Hold

from .external_action import allows_edits

#: Wildcard for any key or index in a path that is read.
ANY: Final = "*"

_Read = tuple[str, ...]
_EVERYTHING: Final = frozenset({()})


@dataclass(frozen=True, slots=True)
class Impact:
    """`readers` maps each changed path to the tasks that read it, in the plan's order.

    `affected` are all tasks with a possibly different result: readers, and their readers.
    """

    readers: Mapping[Path, tuple[str, ...]]
    affected: frozenset[str]


def impact(plan: Plan, task_id: str, changed: Iterable[Path], *, output: bool) -> Impact:
    """Return the impact of changing these paths of a task's output, or of its inputs.

    Changed inputs are read by the task itself and may change its whole output: the readers are the
    task and all tasks that read any part of its output.
    """
    paths = list(changed)
    if task_id not in plan.by_id or not paths:
        return Impact({}, frozenset())
    reads = _Reads(plan)
    if not output:
        own = (task_id, *reads.readers(task_id, ()))
        return Impact(dict.fromkeys(paths, own), reads.reached({task_id}))
    readers = {path: reads.readers(task_id, path) for path in paths}
    return Impact(readers, reads.reached({name for names in readers.values() for name in names}))


class _Reads:
    """Index of the paths that each task reads, built in one pass over the plan."""

    def __init__(self, plan: Plan) -> None:
        self._place = {task.id: place for place, task in enumerate(plan.tasks)}
        # Source -> reader -> paths; a condition that chooses its source at run time is under ANY.
        self._of: defaultdict[str, defaultdict[str, set[_Read]]]
        self._of = defaultdict(lambda: defaultdict(set))
        for task in plan.tasks:
            for source, read in _reads(task.values, task.when):
                self._of[source][task.id].add(read)

    def readers(self, source: str, path: Path) -> tuple[str, ...]:
        """Return the tasks that read this path of the source's output, in the plan's order."""
        keys = tuple(ANY if isinstance(part, int) else part for part in path)
        readers = {
            name
            for key in (source, ANY)
            for name, reads in self._of.get(key, {}).items()
            if any(_touch(read, keys) for read in reads)
        }
        return tuple(sorted(readers, key=self._place.__getitem__))

    def reached(self, names: set[str]) -> frozenset[str]:
        """Return these tasks and all tasks that read from them, directly or indirectly."""
        reached, todo = set(names), list(names)
        while todo:
            name = todo.pop()
            new = {*self._of.get(name, ()), *self._of.get(ANY, ())} - reached
            reached |= new
            todo += new
        return frozenset(reached)


def _touch(read: _Read, keys: tuple[str, ...]) -> bool:
    return all(
        ANY in (mine, theirs) or mine == theirs for mine, theirs in zip(read, keys, strict=False)
    )


def _reads(value: Any, when: str | None) -> Iterator[tuple[str, _Read]]:
    """Yield (source, path) of all data that a task's inputs and condition read."""
    for read in paths_read(when) if when else ():
        yield (read[0], read[1:]) if read else (ANY, ())
    stack = [value]
    while stack:
        item = stack.pop()
        if is_reference(item):
            select = item.get("select")
            for read in _EVERYTHING if select is None else paths_read(select):
                yield item["$from"], read
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)


# Keyed by the expression; bounded by 4096; never stale: the result depends only on the key.
@lru_cache(maxsize=4096)
def paths_read(expression: str) -> frozenset[_Read]:
    """Return the paths that a JMESPath expression reads; `*` for keys chosen at run time."""
    reads: set[_Read] = set()
    try:
        end = _follow(compiled(expression).parsed, (), reads)
    except (ExpressionError, RecursionError):
        return _EVERYTHING
    if end is not None:
        reads.add(end)
    return frozenset(reads)


def _follow(node: Mapping[str, Any], at: _Read | None, reads: set[_Read]) -> _Read | None:
    """Return the path of the value of `node` at `at`; None for a computed value.

    Other paths that it reads are added to `reads`.
    """
    kind, children = node["type"], node.get("children", [])
    if kind == "literal":
        return None
    if kind in ("identity", "current"):
        return at
    if kind == "field":
        return None if at is None else (*at, str(node["value"]))
    if kind == "index":
        return None if at is None else (*at, ANY)
    if kind == "slice":
        return at
    if kind in ("subexpression", "index_expression", "pipe"):
        for child in children:
            at = _follow(child, at, reads)
        return at
    if kind in ("projection", "value_projection", "filter_projection"):
        return _project(kind, children, at, reads)
    _read_all(kind, children, at, reads)
    return None


def _project(
    kind: str, children: list[Mapping[str, Any]], at: _Read | None, reads: set[_Read]
) -> _Read | None:
    """Follow a projection: each item of the left side, with the right side and any filter."""
    left = _follow(children[0], at, reads)
    item = None if left is None else (*left, ANY)
    if kind == "filter_projection":
        _use(children[2], item, reads)
    return _follow(children[1], item, reads)


_MAKERS: Final = frozenset(
    {
        "flatten", "multi_select_list", "multi_select_dict", "key_val_pair", "function_expression",
        "comparator", "or_expression", "and_expression", "not_expression",
    }
)  # fmt: skip


def _read_all(
    kind: str, children: list[Mapping[str, Any]], at: _Read | None, reads: set[_Read]
) -> None:
    """Follow a computed value, which reads all its parts; unknown nodes read everything."""
    if kind not in _MAKERS and at is not None:
        reads.add(at)
    for child in children:
        _use(child, at, reads)


def _use(node: Mapping[str, Any], at: _Read | None, reads: set[_Read]) -> None:
    # `&expression`, as in sort_by, reads items of another argument, which is read as a whole.
    end = _follow(node, at, reads) if node["type"] != "expref" else None
    if end is not None:
        reads.add(end)


#: Maximum number of names in a list; further ones are counted.
_MAX_NAMES = 4


def takes_edits(hold: Hold) -> bool:
    """Whether a reviewer may edit what the hold shows; with a quorum nobody may."""
    is_review = hold.reason == HoldReason.NODE_REVIEW and hold.quorum == 1
    return is_review and allows_edits(hold)


def impact_context(hold: Hold, paths: Iterable[Path]) -> dict[str, Any]:
    """Return `fields` (path as JSON pointer, dotted, words) and `ahead` (words, or "").

    `paths` are the changed positions in the payload.  Empty for a hold that takes no edits.
    """
    listed = list(dict.fromkeys(paths))
    if not listed or not takes_edits(hold):
        return {"fields": (), "ahead": ""}
    output = hold.phase == TriggerPhase.AFTER_EXECUTION
    impact_of_edit = impact(revision_of(hold.execution).plan, hold.task_id, listed, output=output)
    fields = tuple(
        {
            "path": to_pointer(path),
            "dotted": path_text(path),
            "words": _readers_words(names, output=output),
        }
        for path, names in impact_of_edit.readers.items()
    )
    return {"fields": fields, "ahead": _ahead_words(hold, impact_of_edit.affected)}


def path_of(text: str, value: Any) -> Path:
    """Convert a JSON pointer to a path in `value`: keys, and indexes of lists."""
    path: list[str | int] = []
    for name in pointer_keys(text):
        is_index = isinstance(value, list) and name.isascii() and name.isdigit()
        path.append(int(name[:9]) if is_index else name)
        value = _inside(value, path[-1])
    return tuple(path)


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return value.get(part) if isinstance(value, dict) else None


def _readers_words(names: tuple[str, ...], *, output: bool) -> str:
    if output:
        if not names:
            return _("not used by later tasks")
        return _("used by %(tasks)s") % {"tasks": _listed(names)}
    first, *later = names
    if not later:
        return _("used by %(task)s") % {"task": first}
    params = {"task": first, "tasks": _listed(later)}
    return _("used by %(task)s; its output is used by %(tasks)s") % params


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    if more <= 0:
        return shown
    return _("%(tasks)s and %(more)d more") % {"tasks": shown, "more": more}


def _ahead_words(hold: Hold, affected: frozenset[str]) -> str:
    results = [
        each for each in speculative_results_behind(hold) if each.state in ("READY", "RUNNING")
    ]
    discarded = sum(each.task_id in affected for each in results)
    if not results:
        return ""
    if not discarded:
        return _("All precomputed results are kept: none of them reads your changes.")
    lost = ngettext(
        "%(count)d precomputed result discarded.",
        "%(count)d precomputed results discarded.",
        discarded,
    ) % {"count": discarded}
    rest = len(results) - discarded
    if not rest:
        return lost
    return f"{lost} " + ngettext("%(count)d kept.", "%(count)d kept.", rest) % {"count": rest}
