"""Page context of an escalation: present and requested permissions, and the code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from django.urls import reverse
from django.utils.html import conditional_escape
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.components.highlighting import Line, lines_of
from reviews.components.number_formatting import counted
from reviews.components.reasons import render_reason
from workflows.engine.plans.task_errors import attempt_reason
from workflows.engine.policy.permissions import PermissionSet
from workflows.engine.protocol.state import GrantScope, HoldReason
from workflows.models import Grant, Hold
from workflows.permissions.grants import is_in_force, missing_permissions

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

#: Longer code is shown around the denied line first.
_MAX_LINES = 30
_CONTEXT_LINES = 8

_KINDS = (
    ("hosts", N_("Network")),
    ("read_paths", N_("Files to read")),
    ("write_paths", N_("Files to write")),
    ("env_names", N_("Environment")),
    ("run", N_("Programs")),
)

_LANGUAGES = {"python": "Python", "typescript": "TypeScript", "javascript": "JavaScript"}

#: How long a timed grant may last: seconds, the words for it, and the button that gives it.
TIMES = (
    (3600, N_("for 1 hour"), N_("Allow in every run for 1 hour")),
    (86_400, N_("for 1 day"), N_("Allow in every run for 1 day")),
    (604_800, N_("for 7 days"), N_("Allow in every run for 7 days")),
    (2_592_000, N_("for 30 days"), N_("Allow in every run for 30 days")),
)

REJECT_PRESETS = (N_("Not needed"), N_("Asks for too much"), N_("Do it another way"))


@dataclass(frozen=True, slots=True)
class GrantChoice:
    """The scope that was chosen in a submitted form."""

    scope: GrantScope = "task"
    seconds: float | None = None


#: The initial choice.
NARROWEST = GrantChoice()


def parse_grant_choice(scope: str, seconds: str) -> GrantChoice:
    """Parse the posted scope; the default is the narrowest."""
    known = next((each for each in get_args(GrantScope) if each == scope), NARROWEST.scope)
    length = next((float(each) for each, _words, _button in TIMES if str(each) == seconds), None)
    return GrantChoice(known, length if known == "until" else None)


def escalation_context(hold: Hold, choice: GrantChoice) -> dict[str, Any] | None:
    """Return `d.escalation` of the templates; None for other kinds of holds."""
    payload = hold.payload
    if hold.reason != HoldReason.ESCALATION or not isinstance(payload, dict):
        return None
    need = missing_permissions(payload)
    current = PermissionSet.model_validate(payload["current"])
    code, line = payload.get("code") or "", payload.get("line")
    return {
        "tried": render_reason(attempt_reason(payload["operation"], payload["resource"])),
        "allows": tuple(render_reason(each) for each in need.descriptions()),
        "rows": tuple(
            _row(name, title, current, need)
            for name, title in _KINDS
            if current.entries(name) or need.entries(name)
        ),
        "line": line,
        **_code(code, payload.get("language") or "", line),
        "language": _LANGUAGES.get(payload.get("language") or "", ""),
        "scopes": _scopes(hold, payload.get("capability") or "", choice),
        "times": tuple(
            {
                "seconds": each,
                "words": _(text),
                "approve": _(button),
                "chosen": each == (choice.seconds or TIMES[0][0]),
            }
            for each, text, button in TIMES
        ),
        "grant": _grant(hold),
        "grants_url": reverse("reviews:grants"),
    }


def _row(name: str, title: str, current: PermissionSet, need: PermissionSet) -> dict[str, Any]:
    """Return one kind of access: the present entries, and the requested ones."""
    has = tuple(entry_words(each) for each in current.entries(name))
    more = tuple(entry_words(each) for each in need.entries(name))
    return {"title": _(title), "has": has, "more": more}


def entry_words(entry: str) -> str:
    """An entry of a set; the working folder has a name of its own, a folder says what it covers."""
    inside = entry.removeprefix("$SCRATCH")
    if entry.startswith("/") and entry.endswith("/"):
        return _("%(path)s and everything below") % {"path": entry}
    return _("working folder%(inside)s") % {"inside": inside} if inside != entry else entry


def _code(code: str, language: str, line: int | None) -> dict[str, Any]:
    if not code:
        return {"lines": (), "whole": (), "line_count": 0}
    lines = [_numbered(each, line) for each in lines_of(code, language)]
    if len(lines) <= _MAX_LINES or line is None:
        return {"lines": lines, "whole": (), "line_count": len(lines)}
    near = lines[max(0, line - 1 - _CONTEXT_LINES) : line + _CONTEXT_LINES]
    return {"lines": near, "whole": lines, "line_count": len(lines)}


def _numbered(each: Line, marked: int | None) -> dict[str, Any]:
    markup: SafeString = conditional_escape(each.markup)
    return {"number": each.number, "markup": markup, "marked": each.number == marked}


def _scopes(hold: Hold, capability: str, choice: GrantChoice) -> tuple[dict[str, Any], ...]:
    """Return the possible scopes of an approval, narrowest first."""
    workflow = hold.execution.workflow
    here = _("%(task)s, in this run") % {"task": hold.task_id}
    scopes = [("task", _("This task only"), here, _("Allow for this task"))]
    run = _("Every task of this run")
    scopes.append(("execution", run, _("until the run ends"), _("Allow for this run")))
    if workflow is not None:
        same = _("of %(workflow)s, while it stays the same") % {"workflow": workflow.title}
        scopes.append(("until", _("This task in every run"), same, _("Allow in every run")))
    if capability:
        named = _("The capability %(name)s") % {"name": capability}
        button = _("Allow for every use of %(name)s") % {"name": capability}
        scopes.append(("capability", named, _("in every run that uses it"), button))
    chosen = choice.scope if choice.scope in {each[0] for each in scopes} else "task"
    return tuple(
        {
            "value": value,
            "label": label,
            "detail": detail,
            "approve": approve,
            "chosen": value == chosen,
        }
        for value, label, detail, approve in scopes
    )


def _grant(hold: Hold) -> dict[str, Any] | None:
    """Return the grant of a decided escalation."""
    grant = Grant.objects.filter(hold=hold).select_related("capability", "workflow").first()
    if grant is None:
        return None
    return {
        "scope": scope_words(grant),
        "used": counted(grant.uses, "time"),
        "in_force": is_in_force(grant),
        "revoked_by": grant.revoked_by,
        "revoked_at": grant.revoked_at,
    }


def scope_words(grant: Grant) -> str:
    """`for task fetch in this run`, `for the capability page`."""
    match grant.scope:
        case Grant.Scope.TASK:
            return _("for task %(task)s in this run") % {"task": grant.task_id}
        case Grant.Scope.EXECUTION:
            return _("for every task of this run")
        case Grant.Scope.CAPABILITY:
            return _("for the capability %(name)s") % {"name": str(grant.capability)}
        case Grant.Scope.STANDING:
            approval = grant.execution.approval
            return _("for the agent %(agent)s of %(owner)s") % {
                "agent": approval.agent or _("without a name"),
                "owner": approval.owner.get_username(),
            }
    if grant.workflow is None:
        return _("for task %(task)s in every run of this plan") % {"task": grant.task_id}
    params = {"task": grant.task_id, "workflow": str(grant.workflow)}
    return _("for task %(task)s in every run of %(workflow)s") % params
