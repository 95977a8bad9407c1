"""An escalation as its reviewer sees it: what is there, what is asked for, the code that asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from django.urls import reverse
from django.utils.html import conditional_escape

from reviews.highlighting import Line, lines_of
from workflows.engine.faults import attempt_words
from workflows.engine.permissions import PermissionSet
from workflows.engine.state import GrantScope, HoldReason
from workflows.grants import asked_for, is_in_force
from workflows.models import Grant, Hold

from . import words

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

#: Longer code is first shown around the line that was stopped.
_SHOWN_WHOLE = 30
_AROUND = 8

_KINDS = (
    ("hosts", "Network"),
    ("read_paths", "Files to read"),
    ("write_paths", "Files to write"),
    ("env_names", "Environment"),
    ("run", "Programs"),
)

_LANGUAGES = {"python": "Python", "typescript": "TypeScript", "javascript": "JavaScript"}

#: How long a timed grant may last: seconds and the words for it.
TIMES = ((3600, "1 hour"), (86_400, "1 day"), (604_800, "7 days"), (2_592_000, "30 days"))

REJECT_PRESETS = ("Not needed", "Asks for too much", "Do it another way")


@dataclass(frozen=True, slots=True)
class Asked:
    """The scope that a person chose in a form that is shown again."""

    scope: GrantScope = "task"
    seconds: float | None = None


#: For a form that nobody has sent yet.
NARROWEST = Asked()


def asked_by(scope: str, seconds: str) -> Asked:
    """What a posted form says; the narrowest unless it says something else."""
    known = next((each for each in get_args(GrantScope) if each == scope), NARROWEST.scope)
    length = next((float(each) for each, _ in TIMES if str(each) == seconds), None)
    return Asked(known, length if known == "until" else None)


def escalation_context(hold: Hold, asked: Asked) -> dict[str, Any] | None:
    """`d.escalation` of the templates; None for every other kind of hold."""
    payload = hold.payload
    if hold.reason != HoldReason.ESCALATION or not isinstance(payload, dict):
        return None
    need = asked_for(payload)
    current = PermissionSet.model_validate(payload["current"])
    code, line = payload.get("code") or "", payload.get("line")
    return {
        "tried": attempt_words(payload["operation"], payload["resource"]),
        "allows": need.sentences(),
        "rows": tuple(
            _row(name, title, current, need)
            for name, title in _KINDS
            if current.entries(name) or need.entries(name)
        ),
        "line": line,
        **_code(code, payload.get("language") or "", line),
        "language": _LANGUAGES.get(payload.get("language") or "", ""),
        "scopes": _scopes(hold, payload.get("capability") or "", asked),
        "times": tuple(
            {"seconds": each, "words": text, "chosen": each == (asked.seconds or TIMES[0][0])}
            for each, text in TIMES
        ),
        "grant": _grant(hold),
        "grants_url": reverse("reviews:grants"),
    }


def _row(name: str, title: str, current: PermissionSet, need: PermissionSet) -> dict[str, Any]:
    """One kind of access: what the task has, and what would come on top."""
    has = tuple(entry_words(each) for each in current.entries(name))
    more = tuple(entry_words(each) for each in need.entries(name))
    return {"title": title, "has": has, "more": more}


def entry_words(entry: str) -> str:
    """An entry of a set; the working folder has a name of its own."""
    inside = entry.removeprefix("$SCRATCH")
    return f"working folder{inside}" if inside != entry else entry


def _code(code: str, language: str, line: int | None) -> dict[str, Any]:
    if not code:
        return {"lines": (), "whole": (), "line_count": 0}
    found = [_numbered(each, line) for each in lines_of(code, language)]
    if len(found) <= _SHOWN_WHOLE or line is None:
        return {"lines": found, "whole": (), "line_count": len(found)}
    near = found[max(0, line - 1 - _AROUND) : line + _AROUND]
    return {"lines": near, "whole": found, "line_count": len(found)}


def _numbered(each: Line, marked: int | None) -> dict[str, Any]:
    markup: SafeString = conditional_escape(each.markup)
    return {"number": each.number, "markup": markup, "marked": each.number == marked}


def _scopes(hold: Hold, capability: str, asked: Asked) -> tuple[dict[str, Any], ...]:
    """How far an approval may reach, the narrowest first."""
    workflow = hold.execution.workflow
    found = [("task", "This task only", f"{hold.task_id}, in this run")]
    found.append(("execution", "Every task of this run", "until the run ends"))
    if workflow is not None:
        found.append(
            ("until", "This task in every run", f"of {workflow.title}, while it stays the same")
        )
    if capability:
        found.append(("capability", f"The capability {capability}", "in whatever run it is used"))
    chosen = asked.scope if asked.scope in {each[0] for each in found} else "task"
    return tuple(
        {"value": value, "label": label, "detail": detail, "chosen": value == chosen}
        for value, label, detail in found
    )


def _grant(hold: Hold) -> dict[str, Any] | None:
    """What became of an approval."""
    grant = Grant.objects.filter(hold=hold).select_related("capability", "workflow").first()
    if grant is None:
        return None
    return {
        "scope": scope_words(grant),
        "used": words.counted(grant.uses, "time"),
        "in_force": is_in_force(grant),
        "revoked_by": grant.revoked_by,
        "revoked_at": grant.revoked_at,
    }


def scope_words(grant: Grant) -> str:
    """`for task fetch in this run`, `for the capability page`."""
    match grant.scope:
        case Grant.Scope.TASK:
            return f"for task {grant.task_id} in this run"
        case Grant.Scope.EXECUTION:
            return "for every task of this run"
        case Grant.Scope.CAPABILITY:
            return f"for the capability {grant.capability}"
    return f"for task {grant.task_id} in every run of {grant.workflow or 'this plan'}"
