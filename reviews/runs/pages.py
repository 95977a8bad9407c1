"""Contexts of the pages of runs: list, one run, its lineage, a fork and a plan change."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews import conf
from reviews.audit.reveals import SIDES, may_reveal, task_place, task_views
from reviews.authoring.definition_view import definition_rules
from reviews.components import labels as components_labels
from reviews.components.dag_svg import DagTask, Picture, layout
from reviews.components.plan_diff import PlanDiff, diff_context
from reviews.components.reasons import render_stored
from reviews.decisions.edits import inputs_schema, secret_rules
from reviews.decisions.hold_text import one_line
from reviews.decisions.masked_values import masks_context
from reviews.decisions.masking import Masked, masked
from reviews.decisions.payload_forms import payload_fields
from reviews.decisions.rights import cannot_be_approved
from reviews.integrations.capabilities import creation_offer
from reviews.queue import selectors
from reviews.queue.pages import demo_url, queue_url
from reviews.retention.selectors import legal_holds_of
from reviews.runs.live_status import STATUS_KINDS, queued, with_live_status
from reviews.runs.panels import SpeculationStatus, overrides_context, speculation_panel
from reviews.runs.results import result_panel, result_tasks
from reviews.runs.timeline import Group, HiddenRules, entry, timeline
from reviews.runs.window import (
    INLINE_DETAILS,
    LISTED_TASKS,
    NEWEST_EVENTS,
    NO_QUERY,
    SHOWN_EVENTS,
    EventWindow,
    RunQuery,
    TaskWindow,
    event_window,
    task_window,
)
from reviews.templatetags.desk import look_of, seconds_text
from workflows.common import keyset
from workflows.common.full_text import full_text_filter
from workflows.common.number_parsing import parse_natural_number
from workflows.common.redaction import mask_secrets
from workflows.common.schemas import FieldError
from workflows.engine.plans.dag import Revision
from workflows.engine.plans.diff import change_between
from workflows.engine.protocol.commands import Continue, Replan
from workflows.engine.protocol.status import ExecutionStatus
from workflows.executions.access import may_operate, may_start, visible_to
from workflows.executions.selectors import (
    TaskView,
    events_of,
    live_version,
    open_holds,
    refusal,
    revision_of,
    settled_ids,
    tasks_of,
)
from workflows.journal.writer import load_revision
from workflows.models import (
    Checkpoint,
    Execution,
    ExecutionEvent,
    ExecutionWords,
    Hold,
    PlanRevision,
    Workflow,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User


_MAX_STARTERS = 50


def runs_context(user: User, *, q: str, status: str, cursor: str) -> dict[str, Any]:
    """The newest runs the user may see; raises keyset.BadCursor."""
    known = [each.value for each in ExecutionStatus]
    status = status if status in known else ""
    rows = visible_to(user).select_related("created_by").order_by("-id")
    if status:
        rows = rows.filter(status=status)
    if q:
        # In whose title each word of `q` begins a word, and the one whose number it is.
        named = full_text_filter(q, ExecutionWords.objects.all())
        number = parse_natural_number(q)
        rows = rows.filter(named if number is None else named | Q(pk=number))
    page = keyset.page(rows, cursor=cursor, size=conf.page_size())
    waiting = _open_holds([run.pk for run in page.rows])
    return {
        "rows": tuple(_row(run, waiting[run.pk]) for run in page.rows),
        "q": q,
        "status": status,
        "status_options": tuple((each, look_of(each).word) for each in known),
        "self_url": runs_url(q=q, status=status, cursor=cursor),
        "clear_url": runs_url(),
        "next_url": runs_url(q=q, status=status, cursor=page.next) if page.next else "",
        "previous_url": runs_url(q=q, status=status) if cursor else "",
        "starters": starters(user),
        "start_errors": False,
        "planner_url": reverse("reviews:planner") if may_start(user) else "",
        "demo_url": demo_url(selectors.Viewer(user)),
    }


def runs_url(**query: str) -> str:
    """The list's address with what of `query` says something."""
    kept = {name: value for name, value in query.items() if value}
    return f"{reverse('reviews:runs')}?{urlencode(kept)}" if kept else reverse("reviews:runs")


def _open_holds(ids: list[int]) -> dict[int, list[Hold]]:
    found: dict[int, list[Hold]] = defaultdict(list)
    holds = Hold.objects.filter(execution_id__in=ids, status=Hold.Status.OPEN)
    for hold in holds.defer("payload").order_by("opened_seq"):
        found[hold.execution_id].append(hold)
    return found


def _row(run: Execution, holds: list[Hold]) -> dict[str, Any]:
    return {
        "url": reverse("reviews:run", args=(run.pk,)),
        "title": components_labels.run_title(run.title, run.pk),
        "summary": _summary(run, holds),
        "status": run.status,
        "progress_text": components_labels.progress_text(run),
        "started_by": run.created_by.get_username() if run.created_by else _("the system"),
        "started_at": run.created_at,
    }


def _summary(run: Execution, holds: list[Hold]) -> str:
    if holds:
        first = holds[0]
        params = {
            "who": components_labels.group_text(first.groups) or _("an agent"),
            "task": first.task_id,
        }
        text = _("waits for %(who)s at %(task)s") if first.task_id else _("waits for %(who)s")
        waits, more = text % params, len(holds) - 1
        if not more:
            return waits
        text = ngettext("%(waits)s and %(n)s more", "%(waits)s and %(n)s more", more)
        return text % {"waits": waits, "n": more}
    if run.error:
        return one_line(mask_secrets(render_stored(run, "error")), 120)
    return look_of(run.status).word


# --- starting -------------------------------------------------------------------------------------


def starters(user: User) -> tuple[dict[str, Any], ...]:
    """A form for each workflow that can be started; none for those who may not start any."""
    if not may_start(user):
        return ()
    rows = Workflow.objects.filter(enabled=True).order_by("title")[:_MAX_STARTERS]
    return tuple(starter(each) for each in rows)


def starter(
    workflow: Workflow,
    *,
    values: Any = None,
    errors: tuple[FieldError, ...] = (),
    rejected: dict[str, str] | None = None,
    blocked_reason: str = "",
) -> dict[str, Any]:
    """Return the context of the form that starts a workflow; `errors` show it again.

    Secrets among the default inputs are masked; the run gets their values unless they are changed.
    """
    before = masked_inputs(workflow).value
    return {
        "key": f"w{workflow.pk}",
        "url": reverse("reviews:start", args=(workflow.pk,)),
        "name": workflow.title,
        "description": workflow.description,
        "fields": payload_fields(
            workflow.inputs_schema,
            before if values is None else values,
            original=before,
            rejected=rejected,
            errors=errors,
        ),
        "blocked_reason": blocked_reason,
        "errors": components_labels.faults(errors),
    }


def masked_inputs(workflow: Workflow) -> Masked:
    """Return the default inputs of a run, with marks in place of secrets."""
    return masked(initial_inputs(workflow), definition_rules(workflow))


def initial_inputs(workflow: Workflow) -> dict[str, Any]:
    """Return the default inputs of a run: defaults of the schema and the workflow."""
    schema = workflow.inputs_schema if isinstance(workflow.inputs_schema, dict) else {}
    parts = schema.get("properties", {})
    known = {
        key: part["default"]
        for key, part in (parts.items() if isinstance(parts, dict) else ())
        if isinstance(part, dict) and "default" in part
    }
    return {**known, **(workflow.default_inputs or {})}


# --- run ------------------------------------------------------------------------------------------


#: Open holds that the top of the page names.
_MAX_HOLDS = 20
#: Newest events from which the start times of running tasks are read.
_MAX_STATUS_EVENTS = 1000
_FINISHED = ("SUCCEEDED", "FAILED", "SKIPPED", "REJECTED")


def run_context(
    user: User,
    execution: Execution,
    *,
    fork_page: str = "reviews:fork",
    editor_page: str = "reviews:editor",
    query: RunQuery = NO_QUERY,
) -> dict[str, Any]:
    """Return `run` of the templates; workflow and creator must be loaded.

    `fork_page` and `editor_page` are the URL names of the form that forks a run and of the plan
    editor; `query` is the part of a long run that is shown.
    """
    layers = revision_of(execution).layers
    window = task_window(layers, task=query.task, current=max(0, execution.layer))
    tasks, since = with_live_status(
        tasks_of(execution, data=window.is_whole), _status_events(execution), timezone.now()
    )
    shown = tasks[window.start : window.end]
    story = event_window(
        execution,
        since=query.since,
        newest=SHOWN_EVENTS if window.is_whole else NEWEST_EVENTS,
    )
    data = _with_data(execution, tasks, window, query, story)
    views = task_views(execution, data.values())
    workflow = execution.workflow
    may = may_operate(user, execution)
    ahead = speculation_panel(execution, may=may)
    forks = fork_urls(execution, fork_page) if may else {}
    reveal = may_reveal(user, execution)
    live = not ExecutionStatus(execution.status).is_final
    return {
        "id": str(execution.pk),
        "url": reverse("reviews:run", args=(execution.pk,)),
        "title": components_labels.run_title(execution.title, execution.pk),
        "status": execution.status,
        "version": execution.version,
        "live": live,
        "workflow_name": workflow.title if workflow else _("no workflow"),
        "workflow_url": reverse("reviews:workflow", args=(workflow.pk,))
        if workflow and workflow.enabled
        else "",
        "started_by": execution.created_by.get_username()
        if execution.created_by
        else _("the system"),
        "started_by_id": execution.created_by_id,
        "started_at": execution.created_at,
        "elapsed_text": components_labels.span_text(execution.created_at, execution.finished_at)
        if execution.finished_at
        else "",
        "error": _error(execution),
        "place": query.address()[1:] + "&" if query.task or query.since else "",
        **_holds(execution),
        "overrides": overrides_context(execution),
        "legal_holds": legal_holds_of(execution),
        "ahead": ahead,
        "picture": _picture(execution, tasks, ahead, window, query),
        "live_version": live_version(tasks),
        "drawn": _drawn(layers, window, query),
        "listed": _listed(tasks, window, query),
        "tasks": tuple(
            {
                **_task(task, since.get(task.id), ahead),
                "address": query.address(task=task.id),
                "has_data": task.id in data,
                **(
                    _data(execution, data[task.id], views, may_reveal=reveal, may_create=may)
                    if task.id in data
                    else {}
                ),
            }
            for task in shown
        ),
        "result": result_panel(execution, tasks, views),
        "story": _story(story, query),
        "groups": _groups(execution, story, tasks, forks, views, is_whole=window.is_whole),
        "queued": queued(execution) if live else (),
        "workflow_from_url": f"{reverse(editor_page)}?run={execution.pk}"
        if may_start(user)
        else "",
        "fork_url": "" if live else forks.get(max(forks, default=-1), ""),
        "learned_url": reverse("reviews:learned", args=(execution.pk,))
        if execution.status == ExecutionStatus.COMPLETED
        else "",
        "fork_layer": max(forks, default=-1) + 1,
        **lineage(user, execution),
        **_steering(user, execution, may=may),
    }


def _error(execution: Execution) -> str:
    if execution.status != ExecutionStatus.FAILED:
        return ""
    return mask_secrets(render_stored(execution, "error"))


def _holds(execution: Execution) -> dict[str, Any]:
    rows = open_holds(execution)
    holds = list(rows.defer("payload")[: _MAX_HOLDS + 1])
    more = rows.count() - _MAX_HOLDS if len(holds) > _MAX_HOLDS else 0
    holds = holds[:_MAX_HOLDS]
    for hold in holds:
        hold.execution = execution
    lost = cannot_be_approved(holds)
    return {
        "holds": tuple(_hold(hold, is_lost=hold.pk in lost) for hold in holds),
        "more_holds": more,
        "holds_url": queue_url(tab="open", q=str(execution.pk)) if more else "",
    }


def _hold(hold: Hold, *, is_lost: bool) -> dict[str, Any]:
    human = hold.decider == "human"
    who = components_labels.group_text(hold.groups) if human else _("an agent")
    return {
        "sentence": _("%(name)s waits for %(who)s")
        % {"name": hold.task_id or hold.target, "who": who},
        "why": render_stored(hold, "why"),
        "cannot_be_approved": is_lost,
        "deadline": hold.expires_at,
        "url": reverse("reviews:decision", args=(hold.execution_id, hold.id)) if human else "",
        "action": _("Review"),
    }


def _with_data(
    execution: Execution,
    tasks: list[TaskView],
    window: TaskWindow,
    query: RunQuery,
    story: EventWindow,
) -> dict[str, TaskView]:
    """Return the tasks whose data the page needs: id → task with its data.

    In a long plan, these are the open tasks, the tasks of the result, and the tasks whose edits
    the timeline shows, because the schema of their tool says what is secret in an edit.
    """
    if window.is_whole:
        return {task.id: task for task in tasks}
    names = {query.task, *query.open, *(task.id for task in result_tasks(execution, tasks))}
    names |= {_edited_task(event) for event in story.events}
    states = {task.id: task.status for task in tasks}
    return {
        task.id: replace(task, status=states[task.id]) for task in tasks_of(execution, names=names)
    }


def _edited_task(event: ExecutionEvent) -> str:
    """Return the task whose edit an event has, "" for none."""
    if event.payload.get("edits") is None:
        return ""
    return str(event.payload.get("task_id") or "")


# --- the plan -------------------------------------------------------------------------------------


def _picture(
    execution: Execution,
    tasks: list[TaskView],
    ahead: SpeculationStatus | None,
    window: TaskWindow,
    query: RunQuery,
) -> Picture:
    listed = {task.id for task in tasks[window.start : window.end]}
    by_id = {task.id: task for task in tasks}
    layers = [
        [_node(by_id[name], ahead, _link(name, listed, query)) for name in layer]
        for layer in revision_of(execution).layers[window.first_layer : window.last_layer]
    ]
    is_live = not ExecutionStatus(execution.status).is_final
    return layout(
        layers,
        current=execution.layer if is_live and execution.layer >= 0 else None,
        first=window.first_layer,
    )


def _link(name: str, listed: Collection[str], query: RunQuery) -> str:
    """Return the link to a task: on this page, or on the page that lists it."""
    return f"#task-{name}" if name in listed else f"{query.address(task=name)}#task-{name}"


def _drawn(
    layers: Sequence[Sequence[str]], window: TaskWindow, query: RunQuery
) -> dict[str, Any] | None:
    """Return which layers the diagram shows, and links to the others; None if it shows all."""
    first, last, total = window.first_layer, window.last_layer, len(layers)
    if last - first == total:
        return None
    before = layers[max(0, 2 * first - last + 1)][0] if first else ""
    after = layers[last][0] if last < total else ""
    return {
        "first": first + 1,
        "last": last,
        "total": total,
        "before_url": f"{query.address(task=before)}#plan-title" if before else "",
        "after_url": f"{query.address(task=after)}#plan-title" if after else "",
    }


def _listed(tasks: list[TaskView], window: TaskWindow, query: RunQuery) -> dict[str, Any] | None:
    """Return which tasks are listed, and links to the others; None if all are."""
    if window.is_whole:
        return None
    before = tasks[max(0, window.start - LISTED_TASKS)].id if window.start else ""
    after = tasks[window.end].id if window.end < len(tasks) else ""
    return {
        "first": window.start + 1,
        "last": window.end,
        "total": len(tasks),
        "layer": tasks[window.start].layer + 1,
        "before_url": f"{query.address(task=before)}#tasks" if before else "",
        "after_url": f"{query.address(task=after)}#tasks" if after else "",
    }


def _node(task: TaskView, ahead: SpeculationStatus | None, href: str) -> DagTask:
    return DagTask(
        id=task.id,
        status=task.status,
        depends_on=task.needs,
        note=_took(task),
        held=bool(task.held),
        speculated=_is_ahead(task, ahead),
        href=href,
    )


def _is_ahead(task: TaskView, ahead: SpeculationStatus | None) -> bool:
    """Return whether a speculative result of the task is stored."""
    return task.status == "PENDING" and ahead is not None and task.id in ahead.ready


def _took(task: TaskView) -> str:
    """Return the duration as `1.2 s`; "" below 50 ms."""
    return seconds_text(task.duration_ms / 1000) if task.duration_ms >= 50 else ""


def _task(
    task: TaskView, since: datetime | None, ahead: SpeculationStatus | None
) -> dict[str, Any]:
    status = "SPECULATED" if _is_ahead(task, ahead) else task.status
    return {
        "id": task.id,
        "status": "HELD" if task.held else status,
        "what": task.target,
        "since": since,
        "time_text": _took(task),
        "remote": task.remote,
        "progress": None if task.progress is None else round(100 * task.progress),
        "remote_logs": mask_secrets(task.logs) if task.remote is not None else "",
    }


def _data(
    execution: Execution,
    task: TaskView,
    views: Mapping[tuple[str, str], Masked],
    *,
    may_reveal: bool,
    may_create: bool,
) -> dict[str, Any]:
    """Return what an opened task shows: its data masked, with the forms that reveal it."""
    found: dict[str, Any] = {
        "error": mask_secrets(render_stored(task, "error")),
        "attempts": tuple(_attempts(task)),
        **creation_offer(task, execution, may_create=may_create),
    }
    if task.remote is not None:
        # The lines of a task that runs are shown beside it.
        found["logs"] = ""
    for side in SIDES:
        view = views[task.id, side]
        there = side == "inputs" or task.status == "SUCCEEDED"
        place = task_place(execution.pk, task.id, side)
        found[f"{side}_json"] = _pretty(view.value) if there else ""
        found[f"{side}_masks"] = masks_context(view, place, may=may_reveal) if there else None
    return found


def task_data_context(user: User, execution: Execution, name: str) -> dict[str, Any] | None:
    """Return `task` of `_task_data.html` for one task, None if the plan has no such task."""
    task = next(iter(tasks_of(execution, names={name})), None)
    if task is None:
        return None
    found = _data(
        execution,
        task,
        task_views(execution, [task]),
        may_reveal=may_reveal(user, execution),
        may_create=may_operate(user, execution),
    )
    return {"id": task.id, **found}


def event_context(execution: Execution, seq: int) -> dict[str, Any] | None:
    """Return the line of one event, with its details; None if there is no such event."""
    event = events_of(execution).filter(seq=seq).first()
    if event is None:
        return None
    tasks = tasks_of(execution, names={_edited_task(event)})
    return entry(event, _hidden(execution, task_views(execution, tasks)))


def _attempts(task: TaskView) -> list[str]:
    lines = []
    for row in task.attempts:
        error = mask_secrets(render_stored(row, "error"))
        params = {"number": row.attempt, "outcome": look_of(row.status).word, "error": error}
        params["time"] = seconds_text(row.duration_ms / 1000)
        text = _("attempt %(number)s: %(outcome)s")
        if row.duration_ms >= 50:
            text = _("attempt %(number)s: %(outcome)s in %(time)s")
        parts = [text % params]
        if row.is_edited:
            parts.append(_("output edited by a reviewer"))
        lines.append(f"{', '.join(parts)}: {error}" if error else ", ".join(parts))
    return lines


def _pretty(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)


# --- activity -------------------------------------------------------------------------------------


def _status_events(execution: Execution) -> QuerySet[ExecutionEvent]:
    newest = events_of(execution, after=max(0, execution.version - _MAX_STATUS_EVENTS))
    return newest.filter(kind__in=STATUS_KINDS)


def _hidden(execution: Execution, views: Mapping[tuple[str, str], Masked]) -> HiddenRules:
    rules = {place: view.rules for place, view in views.items()}
    return HiddenRules(secret_rules(execution, None), rules)


def _story(story: EventWindow, query: RunQuery) -> dict[str, Any]:
    """Return how many events the timeline leaves out, and links to them."""
    earlier = query.address(since=story.earlier_since)
    newest = RunQuery(task=query.task).address()
    return {
        "earlier": story.earlier,
        "later": story.later,
        "earlier_url": f"{earlier}#story-title" if story.earlier else "",
        "newest_url": f"{newest}#story-title" if story.later else "",
    }


def _groups(
    execution: Execution,
    story: EventWindow,
    tasks: list[TaskView],
    forks: dict[int, str],
    views: Mapping[tuple[str, str], Masked],
    *,
    is_whole: bool,
) -> tuple[Group, ...]:
    total = Counter(task.layer for task in tasks)
    done = Counter(task.layer for task in tasks if task.status in _FINISHED)
    counts = {layer: (done[layer], number) for layer, number in total.items()}
    links, hidden = plan_links(execution, story.events), _hidden(execution, views)
    groups = tuple(timeline(story.events, counts, hidden, forks, links, story.layer))
    if not is_whole:
        _leave_details(groups)
    return groups


def _leave_details(groups: Iterable[Group]) -> None:
    """Let long details load when they are opened."""
    for line in (each for group in groups for each in group.entries):
        if len(line["json"]) > INLINE_DETAILS:
            line["json"] = ""
            line["json_url"] = f"?{urlencode({'part': 'event', 'since': line['seq']})}"


# --- steering -------------------------------------------------------------------------------------


def _agent_waits_to_be_asked(execution: Execution) -> bool:
    """Return whether an agent decides in the run, but not after each layer."""
    ail = execution.policy.get("ail") or {}
    return bool(ail.get("enabled")) and ail.get("decision_points") != "per_layer"


def _steering(user: User, execution: Execution, *, may: bool) -> dict[str, Any]:
    """Return the commands that the user may send and the engine would take now."""
    live = not ExecutionStatus(execution.status).is_final
    reason = "" if may else _("Operators, admins and the person who started the run can steer it.")
    operates = live and may
    refused = {
        kind: refusal(execution, command) if operates else ""
        for kind, command in (("continue", Continue()), ("replan", Replan(new_requirement="any")))
    }
    offers = {
        "can_message": live and may_start(user),
        "can_ask_agent": operates and _agent_waits_to_be_asked(execution),
        "can_continue": operates and not refused["continue"],
        "can_replan": operates and not refused["replan"],
        "can_abort": operates,
    }
    return {
        **offers,
        # The offered actions as one word: the page replaces its actions when it changes.
        "offers": "-".join(name.removeprefix("can_") for name, is_so in offers.items() if is_so),
        "actions_reason": reason if live else "",
        "refused": tuple(
            {"kind": kind, "label": _(label), "reason": refused[kind]}
            for kind, label in (("continue", N_("Continue")), ("replan", N_("Replan…")))
            if refused[kind]
        ),
        "command_url": reverse("reviews:run_command", args=(execution.pk,)),
    }


# --- lineage --------------------------------------------------------------------------------------


_MAX_FORKS = 20


def lineage(user: User, execution: Execution) -> dict[str, Any]:
    """Return `parent` (or None) and `forks` of a run that are visible to `user`."""
    seen = visible_to(user)
    parent = None
    if execution.parent_id is not None:
        is_seen = seen.filter(pk=execution.parent_id).exists()
        parent = {
            "number": execution.parent_id,
            "layer": _number(execution),
            "url": reverse("reviews:run", args=(execution.parent_id,)) if is_seen else "",
        }
    forks = seen.filter(parent=execution).order_by("id")[:_MAX_FORKS]
    return {"parent": parent, "forks": tuple(_fork(each) for each in forks)}


def _fork(fork: Execution) -> dict[str, Any]:
    return {
        "number": fork.pk,
        "layer": _number(fork),
        "status": fork.status,
        "url": reverse("reviews:run", args=(fork.pk,)),
    }


def _number(fork: Execution) -> int:
    return (fork.forked_at_layer if fork.forked_at_layer is not None else -1) + 1


def fork_urls(execution: Execution, name: str) -> dict[int, str]:
    """Return layer → fork URL for stored checkpoints with later layers."""
    found = Checkpoint.objects.filter(execution=execution).defer("context", "state")
    return {
        each.layer: reverse(name, args=(execution.pk, each.layer))
        for each in found.order_by("layer")
        if each.layer + 1 < len(load_revision(execution.pk, each.revision).layers)
    }


# --- fork -----------------------------------------------------------------------------------------


_MAX_NAMES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The edited inputs of a fork, and the raw text of JSON fields."""

    inputs: Any
    inputs_text: str
    context_text: str
    mode: str = "form"
    errors: tuple[FieldError, ...] = ()
    rejected: dict[str, str] | None = None


def unchanged(execution: Execution, checkpoint: Checkpoint, mode: str) -> Draft:
    """Return a draft with the original inputs and context; `mode` is form or json."""
    return Draft(
        inputs=execution.inputs,
        inputs_text=pretty(execution.inputs),
        context_text=pretty(checkpoint.context),
        mode=mode,
    )


def fork_context(
    execution: Execution, checkpoint: Checkpoint, draft: Draft, *, url: str
) -> dict[str, Any]:
    """Return `fork` of the template, whose form is at `url`; the workflow must be loaded."""
    revision = load_revision(execution.pk, checkpoint.revision)
    has_form = bool(inputs_schema(execution))
    return {
        "key": "fork",
        "url": url,
        "number": execution.pk,
        "run_title": components_labels.run_title(execution.title, execution.pk),
        "layer": checkpoint.layer + 1,
        "layers": len(revision.layers),
        "mode": draft.mode,
        "form_url": url if has_form and draft.mode == "json" else "",
        "json_url": f"{url}?as=json" if draft.mode == "form" else "",
        "fields": _fields(execution, draft),
        "inputs_json": draft.inputs_text,
        "context_json": draft.context_text,
        "errors": components_labels.faults(draft.errors),
        **_effects(execution, checkpoint, revision),
    }


def _fields(execution: Execution, draft: Draft) -> tuple[Any, ...]:
    if draft.mode == "json":
        return ()
    return payload_fields(
        inputs_schema(execution),
        draft.inputs,
        original=execution.inputs,
        rejected=draft.rejected,
        errors=draft.errors,
    )


def _effects(execution: Execution, checkpoint: Checkpoint, revision: Revision) -> dict[str, Any]:
    taken = [task for task in tasks_of(execution) if task.layer <= checkpoint.layer]
    anew = [name for layer in revision.layers[checkpoint.layer + 1 :] for name in layer]
    messages = ExecutionEvent.objects.filter(
        execution=execution, kind="message_added", seq__lte=checkpoint.version
    )
    return {
        "taken": tuple(_taken(task) for task in taken),
        "anew": _names(anew),
        "reviews": tuple(_reviews(execution, revision, anew)),
        "messages": messages.count(),
        "revision_text": ""
        if checkpoint.revision == execution.revision
        else _("The fork uses the plan of that checkpoint, without later changes."),
    }


def _taken(task: TaskView) -> dict[str, str]:
    return {"id": task.id, "status": task.status}


def _names(names: list[str]) -> str:
    more = len(names) - _MAX_NAMES
    shown = ", ".join(names[:_MAX_NAMES])
    if more <= 0:
        return shown
    text = ngettext("%(names)s and %(n)s more task", "%(names)s and %(n)s more tasks", more)
    return text % {"names": shown, "n": more}


def _reviews(execution: Execution, revision: Revision, names: list[str]) -> Iterator[str]:
    """Yield the review points after the checkpoint."""
    for name in names:
        review = revision.plan.by_id[name].human_review
        if review is not None and review.enabled:
            yield f"{name}, {components_labels.phase_text(review.trigger_phase.value)}"
    if execution.policy.get("hil", {}).get("enabled"):
        yield _("each layer that needs approval")


def pretty(value: Any) -> str:
    """Return a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


# --- plan changes ---------------------------------------------------------------------------------


_CAUSES = {
    "replan": N_("A replan changed the plan"),
    "inject_task": N_("A task was added to the plan"),
    "modify_args": N_("Arguments were changed in the plan"),
}


def revision_context(execution: Execution, number: int) -> dict[str, Any]:
    """Return `c` of the template; raises PlanRevision.DoesNotExist for an unknown revision."""
    event = ExecutionEvent.objects.filter(
        execution=execution, kind="plan_revised", payload__revision=number
    ).first()
    if event is None:
        raise PlanRevision.DoesNotExist
    before, after = load_revision(execution.pk, number - 1), load_revision(execution.pk, number)
    payload = event.payload
    shown = PlanDiff(
        view=masked(None, secret_rules(execution, None)),
        before=before.plan,
        old_layers=before.layers,
        layers=after.layers,
        change=change_between(before.plan, after.plan),
        why=payload.get("why") or {},
        done=_done(execution, before.layers, after.layers),
    )
    hold = Hold.objects.filter(pk=payload.get("hold_id") or "").first()
    asked_by = _asked_by(hold, event)
    return {
        "title": _(_CAUSES.get(payload["cause"], N_("The plan was changed"))),
        "requirement": payload.get("requirement", ""),
        "number": number,
        "by": asked_by.removeprefix("agent:"),
        "by_agent": asked_by.startswith("agent:"),
        "approved_by": event.actor if hold else "",
        "at": event.created_at,
        "run_title": components_labels.run_title(execution.title, execution.pk),
        "run_url": f"{reverse('reviews:run', args=(execution.pk,))}#e{event.seq}",
        "review_url": reverse("reviews:decision", args=(execution.pk, hold.pk)) if hold else "",
        **diff_context(shown),
    }


def _asked_by(hold: Hold | None, event: ExecutionEvent) -> str:
    """Return who requested the change, which is not who approved it."""
    payload = hold.payload if hold is not None else None
    return str(payload["asked_by"]) if isinstance(payload, dict) else event.actor


def _done(
    execution: Execution, old: tuple[tuple[str, ...], ...], new: tuple[tuple[str, ...], ...]
) -> frozenset[str]:
    """Return the tasks settled before the change: the common first layers of both plans."""
    same = [left for left, right in zip(old, new, strict=False) if left == right]
    return settled_ids(execution, same)


def plan_links(
    execution: Execution, events: Iterable[ExecutionEvent]
) -> dict[int, tuple[str, str]]:
    """Return links of the timeline: event seq → (URL, text)."""
    found = {}
    for event in events:
        if event.kind == "plan_revised":
            place = (execution.pk, event.payload["revision"])
            found[event.seq] = (reverse("reviews:plan_change", args=place), _("See what changed"))
        elif event.kind == "hold_opened" and event.payload["reason"] == "replan_review":
            place = (execution.pk, event.payload["hold_id"])
            found[event.seq] = (
                reverse("reviews:decision", args=place),
                _("See the proposed change"),
            )
    return found
