"""What an edit reaches, in words: who reads the changed fields, which results ahead go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.components.diffs import Path
from reviews.decisions.edit_impact import impact
from workflows.common.schemas.json_pointer import pointer_keys, to_pointer
from workflows.engine.bounded_json import path_text
from workflows.engine.policy import TriggerPhase
from workflows.engine.state import HoldReason
from workflows.executions.selectors import revision_of, speculative_results_behind
from workflows.models import Hold

#: Names that are listed before the rest is counted.
_MOST_NAMES = 4


def takes_edits(hold: Hold) -> bool:
    """Whether what the hold shows goes on to other tasks, so that an edit of it reaches them."""
    return hold.reason == HoldReason.NODE_REVIEW


def impact_context(hold: Hold, paths: Iterable[Path]) -> dict[str, Any]:
    """fields: path (JSON pointer), dotted, words; ahead: words, "" when nothing is lost.

    `paths` are the changed places of the hold's payload.  Empty for a hold that takes no edits.
    """
    listed = list(dict.fromkeys(paths))
    if not listed or not takes_edits(hold):
        return {"fields": (), "ahead": ""}
    output = hold.phase == TriggerPhase.AFTER_EXECUTION
    found = impact(revision_of(hold.execution).plan, hold.task_id, listed, output=output)
    fields = tuple(
        {
            "path": to_pointer(path),
            "dotted": path_text(path),
            "words": _readers_words(names, output=output),
        }
        for path, names in found.readers.items()
    )
    return {"fields": fields, "ahead": _ahead_words(hold, found.affected)}


def path_of(text: str, value: Any) -> Path:
    """A JSON pointer as a path of `value`: keys, and indexes where it has lists."""
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
            return _("no later task reads it")
        return _("read by %(tasks)s") % {"tasks": _listed(names)}
    first, *later = names
    if not later:
        return _("%(task)s runs with it") % {"task": first}
    told = {"task": first, "tasks": _listed(later)}
    return _("%(task)s runs with it; what it gives is read by %(tasks)s") % told


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    if more <= 0:
        return shown
    return _("%(tasks)s and %(more)d more") % {"tasks": shown, "more": more}


def _ahead_words(hold: Hold, affected: frozenset[str]) -> str:
    behind = [
        each for each in speculative_results_behind(hold) if each.state in ("READY", "RUNNING")
    ]
    gone = sum(each.task_id in affected for each in behind)
    if not behind:
        return ""
    if not gone:
        return _("The results computed ahead stay: none of them reads what you changed.")
    lost = ngettext(
        "%(count)d result computed ahead goes.", "%(count)d results computed ahead go.", gone
    ) % {"count": gone}
    rest = len(behind) - gone
    if not rest:
        return lost
    return f"{lost} " + ngettext("%(count)d stays.", "%(count)d stay.", rest) % {"count": rest}
