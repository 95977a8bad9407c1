"""One run as it is watched: the plan's picture, its tasks, its story, and how it can be steered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from reviews.audit.reveals import SIDES, may_reveal, task_place, task_views
from reviews.components import labels as components_labels
from reviews.components.dag_svg import DagTask, Picture, layout, with_links
from reviews.decisions.edits import secret_rules
from reviews.decisions.masked_values import masks_context
from reviews.decisions.masking import Masked
from reviews.decisions.rights import cannot_be_approved
from reviews.integrations.capabilities_page import offer
from reviews.templatetags.desk import look_of, seconds_words
from workflows.common.redaction import mask_secrets
from workflows.engine.status import ExecutionStatus
from workflows.executions.access import may_operate, may_start
from workflows.executions.selectors import TaskView, events_of, open_holds, revision_of, tasks_of
from workflows.models import Execution, ExecutionEvent, Hold

from .lineage import fork_urls, lineage
from .live_status import as_seen, queued
from .plan_revision_page import plan_links
from .policy_overrides_panel import overrides_context
from .speculation_panel import SpeculationStatus, work_ahead
from .timeline import Group, Hidden, timeline

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Events that one page shows; the newest ones of a longer run.
_MAX_EVENTS = 1000
_MAX_TASKS_WITH_DATA = 400
_SETTLED = ("SUCCEEDED", "FAILED", "SKIPPED", "REJECTED")


def run_context(user: User, execution: Execution) -> dict[str, Any]:
    """`run` of the templates; workflow and creator are loaded."""
    events = _newest_events(execution)
    tasks, since = as_seen(tasks_of(execution), events, timezone.now())
    workflow = execution.workflow
    may = may_operate(user, execution)
    ahead = work_ahead(execution, may=may)
    forks = fork_urls(execution) if may else {}
    shown = tasks[:_MAX_TASKS_WITH_DATA]
    views = task_views(execution, shown)
    hidden = Hidden(
        secret_rules(execution, None), {place: view.rules for place, view in views.items()}
    )
    reveal = may_reveal(user, execution)
    live = not ExecutionStatus(execution.status).is_final
    return {
        "id": str(execution.pk),
        "url": reverse("reviews:run", args=(execution.pk,)),
        "title": components_labels.run_title(execution.title, execution.pk),
        "status": execution.status,
        "version": execution.version,
        "live": live,
        "workflow_name": workflow.title if workflow else _("a plan of its own"),
        "workflow_url": reverse("reviews:workflow", args=(workflow.pk,))
        if workflow and workflow.enabled
        else "",
        "started_by": execution.created_by.get_username()
        if execution.created_by
        else _("the system"),
        "started_at": execution.created_at,
        "elapsed_words": components_labels.span_words(execution.created_at, execution.finished_at)
        if execution.finished_at
        else "",
        "error": _error(execution),
        "holds": _holds(execution),
        "overrides": overrides_context(execution),
        "ahead": ahead,
        "picture": _picture(execution, tasks, ahead),
        "tasks": tuple(
            {
                **_task(task, since.get(task.id), ahead),
                **_data(execution, task, views, may=reveal),
                **offer(task, execution, may=may),
            }
            for task in shown
        ),
        "groups": _groups(events, tasks, forks, plan_links(execution, events), hidden),
        "queued": queued(execution) if live else (),
        "fork_url": "" if live else forks.get(max(forks, default=-1), ""),
        "learned_url": reverse("reviews:learned", args=(execution.pk,))
        if execution.status == ExecutionStatus.COMPLETED
        else "",
        "fork_layer": max(forks, default=-1) + 1,
        **lineage(user, execution),
        **_steering(user, execution, may=may),
    }


def _error(execution: Execution) -> str:
    return mask_secrets(execution.error) if execution.status == ExecutionStatus.FAILED else ""


def _holds(execution: Execution) -> tuple[dict[str, Any], ...]:
    holds = list(open_holds(execution).defer("payload"))
    for hold in holds:
        hold.execution = execution
    lost = cannot_be_approved(holds)
    return tuple(_hold(hold, is_lost=hold.pk in lost) for hold in holds)


def _hold(hold: Hold, *, is_lost: bool) -> dict[str, Any]:
    human = hold.decider == "human"
    who = components_labels.group_words(hold.groups) if human else _("an agent")
    return {
        "sentence": _("%(name)s waits for %(who)s")
        % {"name": hold.task_id or hold.target, "who": who},
        "why": hold.why,
        "cannot_be_approved": is_lost,
        "deadline": hold.expires_at,
        "url": reverse("reviews:decision", args=(hold.execution_id, hold.id)) if human else "",
        "action": _("Review"),
    }


# --- the plan -------------------------------------------------------------------------------------


def _picture(
    execution: Execution, tasks: list[TaskView], ahead: SpeculationStatus | None
) -> Picture:
    by_id = {task.id: _node(task, ahead) for task in tasks}
    layers = [[by_id[name] for name in layer] for layer in revision_of(execution).layers]
    is_live = not ExecutionStatus(execution.status).is_final
    return layout(
        with_links(layers, "#task-"),
        current=execution.layer if is_live and execution.layer >= 0 else None,
    )


def _node(task: TaskView, ahead: SpeculationStatus | None) -> DagTask:
    return DagTask(
        id=task.id,
        status=task.status,
        depends_on=task.needs,
        note=_took(task),
        held=bool(task.held),
        speculated=_is_ahead(task, ahead),
    )


def _is_ahead(task: TaskView, ahead: SpeculationStatus | None) -> bool:
    """Whether its result is known and waits for a decision."""
    return task.status == "PENDING" and ahead is not None and task.id in ahead.ready


def _took(task: TaskView) -> str:
    """`1.2 s`; "" for what took no time worth telling."""
    return seconds_words(task.duration_ms / 1000) if task.duration_ms >= 50 else ""


def _task(
    task: TaskView, since: datetime | None, ahead: SpeculationStatus | None
) -> dict[str, Any]:
    status = "SPECULATED" if _is_ahead(task, ahead) else task.status
    return {
        "id": task.id,
        "status": "HELD" if task.held else status,
        "what": task.target,
        "since": since,
        "time_words": _took(task),
        "error": mask_secrets(task.error),
        "attempts": tuple(_attempts(task)),
    }


def _data(
    execution: Execution, task: TaskView, views: Mapping[tuple[str, str], Masked], *, may: bool
) -> dict[str, Any]:
    """What it ran with and gave, secrets masked, with what reveals them."""
    found: dict[str, Any] = {}
    for side in SIDES:
        view = views[task.id, side]
        there = side == "inputs" or task.status == "SUCCEEDED"
        place = task_place(execution.pk, task.id, side)
        found[f"{side}_json"] = _pretty(view.value) if there else ""
        found[f"{side}_masks"] = masks_context(view, place, may=may) if there else None
    return found


def _attempts(task: TaskView) -> list[str]:
    lines = []
    for row in task.attempts:
        error = mask_secrets(row.error)
        told = {"number": row.attempt, "outcome": look_of(row.status).word, "error": error}
        told["time"] = seconds_words(row.duration_ms / 1000)
        text = _("attempt %(number)s: %(outcome)s")
        if row.duration_ms >= 50:
            text = _("attempt %(number)s: %(outcome)s in %(time)s")
        parts = [text % told]
        if row.is_edited:
            parts.append(_("its output edited by a reviewer"))
        lines.append(f"{', '.join(parts)}: {error}" if error else ", ".join(parts))
    return lines


def _pretty(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


# --- the story ------------------------------------------------------------------------------------


def _newest_events(execution: Execution) -> list[ExecutionEvent]:
    return list(events_of(execution, after=max(0, execution.version - _MAX_EVENTS)))


def _groups(
    events: list[ExecutionEvent],
    tasks: list[TaskView],
    forks: dict[int, str],
    links: dict[int, tuple[str, str]],
    hidden: Hidden,
) -> tuple[Group, ...]:
    total = Counter(task.layer for task in tasks)
    done = Counter(task.layer for task in tasks if task.status in _SETTLED)
    counts = {layer: (done[layer], number) for layer, number in total.items()}
    return tuple(timeline(events, counts, forks, links, hidden))


# --- steering -------------------------------------------------------------------------------------


def _agent_waits_to_be_asked(execution: Execution) -> bool:
    """Whether an agent decides in the run, and not after each layer anyway."""
    ail = execution.policy.get("ail") or {}
    return bool(ail.get("enabled")) and ail.get("decision_points") != "per_layer"


def _steering(user: User, execution: Execution, *, may: bool) -> dict[str, Any]:
    live = not ExecutionStatus(execution.status).is_final
    waits = execution.status == ExecutionStatus.AWAITING_AGENT
    reason = "" if may else _("Operators, admins and whoever started the run can steer it.")
    offers = {
        "can_message": live and may_start(user),
        "can_ask_agent": live and may and _agent_waits_to_be_asked(execution),
        "can_continue": waits and may,
        "can_replan": live and may and execution.status != ExecutionStatus.PAUSED_FOR_REVIEW,
        "can_abort": live and may,
    }
    return {
        **offers,
        # What a page offers, as one word: its actions are replaced when that changes.
        "offers": "-".join(name.removeprefix("can_") for name, is_so in offers.items() if is_so),
        "actions_reason": reason if live else "",
        "command_url": reverse("reviews:run_command", args=(execution.pk,)),
    }
