"""What a reviewer reads about an external action: what it is, and the agent that asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.components.markdown import render_markdown
from reviews.templatetags.desk import visible
from workflows.approvals.editable import is_editable
from workflows.approvals.selectors import is_awaited
from workflows.common.redaction import mask_secrets
from workflows.common.schemas import FormField
from workflows.engine.plans.dag import ExternalActionTask
from workflows.engine.protocol.state import HoldReason
from workflows.executions.selectors import task_spec
from workflows.models import Approval, Hold

_RISKS: Final = {"low": N_("low"), "medium": N_("medium"), "high": N_("high")}


def external_action_context(hold: Hold) -> dict[str, Any] | None:
    """Return the action of an approval for its page; None for other holds."""
    task = _action(hold)
    approval = Approval.objects.filter(execution=hold.execution_id).first() if task else None
    if task is None or approval is None:
        return None
    owner = hold.execution.created_by
    facts = (
        (_("Action"), approval.action),
        (_("Agent"), approval.agent),
        (_("Session"), approval.session),
        (_("Asked by"), owner.get_username() if owner else ""),
        (_("Risk"), _(_RISKS[approval.risk])),
        (_("Policy"), approval.policy),
        (_("Editable"), _editable(task.editable)),
    )
    return {
        "title": approval.title or approval.action,
        "description": task.description,
        "facts": tuple({"name": name, "value": value} for name, value in facts if value),
        # The address was checked when the agent asked: it is http or https.
        "url": approval.url,
        "shown_url": mask_secrets(approval.url),
        "context": render_markdown(visible(approval.context)),
        "context_text": approval.context,
        "nobody_waits": _nobody_waits(hold, approval),
    }


def _nobody_waits(hold: Hold, approval: Approval) -> bool:
    """Whether the hook that asked for the open review has stopped waiting."""
    return hold.status == Hold.Status.OPEN and is_awaited(approval) is False


def _action(hold: Hold) -> ExternalActionTask | None:
    """Return the external action that the hold is about, or None."""
    if hold.reason != HoldReason.NODE_REVIEW:
        return None
    task = task_spec(hold.execution, hold.task_id)
    return task if isinstance(task, ExternalActionTask) else None


def _editable(editable: Any) -> str:
    """Name what may be edited if it is not everything."""
    if editable is True:
        return ""
    return ", ".join(editable) or _("nothing")


def allows_edits(hold: Hold) -> bool:
    """Whether the agent of an external action lets people edit any of it; True for others."""
    task = _action(hold)
    return task is None or task.editable != ()


def is_external_action(hold: Hold) -> bool:
    """Whether the hold is about an action that an outside agent executes."""
    return _action(hold) is not None


def external_outcomes(hold: Hold) -> tuple[str, str, str] | None:
    """Return the effects of approving, requesting changes and rejecting; None for other holds."""
    task = _action(hold)
    if task is None:
        return None
    change = _("The agent is asked to change it.")
    approval = Approval.objects.filter(execution=hold.execution_id).first()
    question = approval if approval is not None and approval.is_question else None
    if question is not None and question.url:
        return (
            _("The server learns that you open the address."),
            change,
            _("The server learns that you do not open the address."),
        )
    if question is not None:
        return (
            _("The server gets these values as its answer."),
            change,
            _("The server gets no values: its question is declined."),
        )
    if task.is_executed:
        return _("The agent continues with this output."), change, _("The agent gets your reason.")
    if approval is not None and _nobody_waits(hold, approval):
        return _("Nothing runs: the agent has stopped waiting."), change, _("Nothing runs.")
    return (
        _("The agent runs it with these arguments."),
        change,
        _("The agent gets your reason and does not run it."),
    )


def with_locks(hold: Hold, fields: tuple[FormField, ...]) -> tuple[FormField, ...]:
    """Return the fields with those locked that the agent does not let people edit."""
    task = _action(hold)
    if task is None or task.editable is True:
        return fields
    return tuple(_locked(each, task.editable) for each in fields)


def _locked(field: FormField, editable: tuple[str, ...]) -> FormField:
    children = tuple(_locked(each, editable) for each in field.children)
    return replace(field, children=children, locked=not is_editable(editable, field.path))
