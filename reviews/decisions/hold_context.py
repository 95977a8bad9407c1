"""Context of a hold's page: layers, upstream results, activity, effects of each decision."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.audit.reveals import task_place, task_rules
from reviews.components import labels as components_labels
from reviews.components.number_formatting import counted
from reviews.components.reasons import render_stored
from reviews.decisions.hold_text import approved, one_line, rejected
from reviews.decisions.masking import Rules, masked
from reviews.models import HumanReviewRecord, SecretReveal
from reviews.templatetags.desk import look_of
from workflows.common.redaction import mask_secrets
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.engine.protocol.status import ExecutionStatus
from workflows.executions.selectors import TaskView, messages_of, revision_of, tasks_of
from workflows.models import Hold

from .external_action import external_outcomes
from .masked_values import masks_context, reveal_sentence

_FAILED_STATUSES = ("FAILED", "REJECTED")
_MAX_NAMES = 2


class HoldContext:
    """The run of a hold; its tasks and its conversation are each read once, when needed."""

    def __init__(self, hold: Hold, *, may_reveal: bool = False) -> None:
        self.hold = hold
        self.may_reveal = may_reveal
        self.execution = hold.execution

    @cached_property
    def tasks(self) -> list[TaskView]:
        return tasks_of(self.execution)

    @cached_property
    def by_id(self) -> dict[str, TaskView]:
        return {task.id: task for task in self.tasks}

    @cached_property
    def _rules(self) -> Mapping[tuple[str, str], Rules]:
        """The masking rules for the data of the held task and of the tasks that it reads."""
        task = self.by_id[self.hold.task_id]
        near = (self.by_id[name] for name in task.needs if name in self.by_id)
        return task_rules(self.execution, [task, *near])

    # --- progress -------------------------------------------------------------------------------

    def layer_steps(self) -> tuple[dict[str, str], ...]:
        """Return one step per layer: label, state (done, current, todo, failed), words."""
        return tuple(
            self._layer_step(index, list(names)) for index, names in enumerate(self._layers)
        )

    @property
    def _layers(self) -> tuple[tuple[str, ...], ...]:
        return revision_of(self.execution).layers

    def _layer_step(self, index: int, names: list[str]) -> dict[str, str]:
        here = self.hold.layer
        waits = self.hold.status == Hold.Status.OPEN
        label = ", ".join(names) if len(names) <= _MAX_NAMES else counted(len(names), "task")
        failed = any(self.by_id[name].status in _FAILED_STATUSES for name in names)
        if index == here and waits:
            return {
                "label": components_labels.step_text(self.hold),
                "state": "current",
                "words": _("waits here"),
            }
        if failed:
            return {"label": label, "state": "failed", "words": _("failed in part")}
        if ExecutionStatus(self.execution.status).is_final:
            ran = any(self.by_id[name].status == "SUCCEEDED" for name in names)
            state = "done" if ran else "todo"
            return {"label": label, "state": state, "words": _("done") if ran else _("did not run")}
        if index == self.execution.layer and not waits:
            resting = ExecutionStatus(self.execution.status).is_resting
            words = _("waits for another decision") if resting else _("runs now")
            return {"label": label, "state": "current" if resting else "running", "words": words}
        if index < max(here if waits else 0, self.execution.layer):
            return {"label": label, "state": "done", "words": _("done")}
        return {"label": label, "state": "todo", "words": _("not yet")}

    # --- upstream results and attempts ----------------------------------------------------------

    def sections(self) -> tuple[dict[str, Any], ...]:
        """Return sections of expandable items: upstream results, attempts, conversation."""
        parts = (
            (_("Inputs"), list(self._own_inputs())),
            (_("Upstream results"), list(self._upstream())),
            (_("Earlier attempts"), list(self._tries())),
            (_("Conversation"), [_item(_said(each)) for each in messages_of(self.execution)]),
        )
        return tuple(
            {"title": title, "items_shown": tuple(items)} for title, items in parts if items
        )

    def _own_inputs(self) -> Iterator[dict[str, Any]]:
        task = self.by_id.get(self.hold.task_id)
        if task and self.hold.phase == TriggerPhase.AFTER_EXECUTION and task.inputs is not None:
            yield self._item(task, "inputs", "%(value)s")

    def _item(self, task: TaskView, side: str, text: str) -> dict[str, Any]:
        """Return the masked inputs or output of a task as an expandable item."""
        view = masked(getattr(task, side), self._rules[task.id, side])
        place = task_place(self.execution.pk, task.id, side)
        masks = masks_context(view, place, may=self.may_reveal)
        params = {"task": task.id, "value": one_line(view.value)}
        return {**_item(text % params, view.value), "masks": masks}

    def _upstream(self) -> Iterator[dict[str, Any]]:
        task = self.by_id.get(self.hold.task_id)
        for name in task.needs if task else ():
            source = self.by_id.get(name)
            if source is not None and source.status == "SUCCEEDED":
                text = _("%(task)s: %(value)s")
                if source.is_edited:
                    text = _("%(task)s (edited): %(value)s")
                yield self._item(source, "output", text)
            elif source is not None:
                error = mask_secrets(render_stored(source, "error"))
                yield _item(f"{name}: {look_of(source.status).word} {error}".strip())

    def _tries(self) -> Iterator[dict[str, Any]]:
        task = self.by_id.get(self.hold.task_id)
        for row in task.attempts if task else ():
            if row.error:
                params = {
                    "number": row.attempt,
                    "error": one_line(mask_secrets(render_stored(row, "error"))),
                }
                yield _item(_("attempt %(number)s: %(error)s") % params)

    def history(self, records: list[HumanReviewRecord]) -> tuple[dict[str, Any], ...]:
        """Return the earlier decisions of this run and its start, newest first.

        Each has the name in its sentence (`by`), and the id of the account with this name.
        """
        creator = self.execution.created_by
        who = creator.get_username() if creator else _("the system")
        started = _("%(name)s started the run") % {"name": who}
        rows: list[dict[str, Any]] = [
            {
                "sentence": components_labels.record_sentence(each, short=True),
                "by": each.actor,
                "by_id": each.reviewer_id,
                "at": each.reviewed_at,
            }
            for each in records
            if each.hold_id != self.hold.id or _was_taken_back(each, records)
        ]
        shown = SecretReveal.objects.filter(hold_id=self.hold.id).order_by("id")
        rows += [
            {
                "sentence": reveal_sentence(each, short=True),
                "by": each.actor,
                "by_id": each.user_id,
                "at": each.at,
            }
            for each in shown
        ]
        rows.sort(key=lambda row: row["at"])
        start = {
            "sentence": started,
            "by": who,
            "by_id": self.execution.created_by_id,
            "at": self.execution.created_at,
        }
        return (*reversed(rows), start)

    # --- consequences ---------------------------------------------------------------------------

    def dependents(self) -> list[str]:
        """Return the tasks that depend directly on the hold's task."""
        return [task.id for task in self.tasks if self.hold.task_id in task.needs]

    def skipped_count(self) -> int:
        """Return the number of tasks that depend on this one, directly or indirectly."""
        plan = revision_of(self.execution).plan
        return len(plan.descendants(self.hold.task_id)) if self.hold.task_id in plan.by_id else 0

    def what_followed(self) -> tuple[dict[str, str], ...]:
        """Return the outcome of the task and the run after the decision."""
        steps = []
        task = self.by_id.get(self.hold.task_id)
        if task is not None and task.status not in ("PENDING", "RUNNING"):
            steps.append({"status": task.status, "sentence": _became(task)})
        sentence = _(_RUN_WORDS[self.execution.status])
        steps.append({"status": self.execution.status, "sentence": sentence})
        return tuple(steps)


_RUN_WORDS = {
    "PENDING": N_("the run has not begun"),
    "RUNNING": N_("the run continues"),
    "PAUSED_FOR_REVIEW": N_("the run waits for another review"),
    "AWAITING_AGENT": N_("the run waits for an agent"),
    "COMPLETED": N_("the run is complete"),
    "FAILED": N_("the run has failed"),
    "ABORTED": N_("the run was aborted"),
}


_OUTCOMES = {
    "SUCCEEDED": N_("%(task)s is done"),
    "FAILED": N_("%(task)s failed"),
    "SKIPPED": N_("%(task)s was skipped"),
    "REJECTED": N_("%(task)s was rejected"),
}


def _became(task: TaskView) -> str:
    text = _OUTCOMES.get(task.status)
    if text is None:
        return f"{task.id}: {look_of(task.status).word}"
    return _(text) % {"task": task.id}


def _was_taken_back(record: HumanReviewRecord, records: list[HumanReviewRecord]) -> bool:
    """Return whether the record is a withdrawal or was withdrawn."""
    withdrawn_ids = {each.withdraws_id for each in records}
    return record.withdraws_id is not None or record.pk in withdrawn_ids


def _said(message: dict[str, Any]) -> str:
    content = str(message["content"])
    return f"{message.get('author') or message.get('role')}: {content}"


def _item(summary: str, value: Any = None) -> dict[str, Any]:
    text = "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
    return {"summary": summary, "json": text, "open": False}


def effects(hold_context: HoldContext) -> dict[str, Any]:
    """Return the effects of the decision buttons, and their labels."""
    hold = hold_context.hold
    skipped = hold_context.skipped_count()
    approve = approved(components_labels.hold_kind(hold), hold.target, hold.task_id)
    reject = rejected(_on_reject(hold), skipped)
    again = _("Reruns %(task)s with your feedback.") % {"task": hold.task_id}
    external = external_outcomes(hold)
    if external is not None:
        approve, again, reject = external
    outcomes = [
        {"when": _("If you approve"), "then": f"{approve} {_then(hold_context)}".strip()},
        {"when": _("If you reject"), "then": reject},
    ]
    if hold.changes_left:
        outcomes.insert(1, {"when": _("If you request changes"), "then": again})
    if hold.expires_at is None:
        outcomes.append({"when": _("If nobody decides"), "then": _("The review stays open.")})
    return {
        "outcomes": tuple(outcomes),
        "approve_label": _("Allow") if hold.reason == HoldReason.ESCALATION else _("Approve"),
        "reject_label": _reject_label(hold, skipped),
        "reject_effect": reject,
    }


#: The effect of a rejection that does not abort the run.
_REJECTED = {
    HoldReason.ESCALATION.value: "fail",
    HoldReason.REPLAN_REVIEW.value: "keep_plan",
}


def _on_reject(hold: Hold) -> str:
    if hold.reason == HoldReason.NODE_REVIEW:
        return hold.on_reject
    return _REJECTED.get(hold.reason, "abort")


def _then(hold_context: HoldContext) -> str:
    if len(hold_context.execution.state.get("holds", ())) > 1:
        return _("The run continues when the other reviews are decided.")
    following = hold_context.dependents()[:_MAX_NAMES]
    if not following:
        return ""
    if len(following) == 1:
        return _("The run continues with %(task)s.") % {"task": following[0]}
    params = {"one": following[0], "other": following[1]}
    return _("The run continues with %(one)s and %(other)s.") % params


def _reject_label(hold: Hold, skipped: int) -> str:
    if _on_reject(hold) == "keep_plan":
        return _("Reject, keep the plan as it is")
    if _on_reject(hold) == "abort":
        return _("Reject and abort the run")
    if not skipped:
        return _("Reject")
    text = ngettext("Reject and skip %(n)s task", "Reject and skip %(n)s tasks", skipped)
    return text % {"n": skipped}
