"""The list of runs, and what can be started from it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews import conf
from reviews.components import labels as components_labels
from reviews.components.number_formatting import counted
from reviews.decisions.payload_forms import payload_fields
from reviews.decisions.summaries import one_line
from reviews.queue import selectors
from reviews.queue.pages import demo_url
from reviews.templatetags.desk import look_of
from workflows.common.full_text import full_text_filter
from workflows.common.number_parsing import parse_natural_number
from workflows.common.redaction import mask_secrets
from workflows.common.schemas import FieldError
from workflows.engine.status import ExecutionStatus
from workflows.executions.access import may_start, visible_to
from workflows.models import Execution, ExecutionWords, Hold, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_MAX_STARTERS = 50


def runs_context(user: User, *, q: str, status: str, cursor: str) -> dict[str, Any]:
    """The newest runs the user may see; raises selectors.BadCursor."""
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
    page = selectors.page(rows, cursor=cursor, size=conf.page_size())
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
        "page_words": counted(len(page.rows), "run"),
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
        "progress_words": components_labels.progress_words(run),
        "started_by": run.created_by.get_username() if run.created_by else _("the system"),
        "started_at": run.created_at,
    }


def _summary(run: Execution, holds: list[Hold]) -> str:
    if holds:
        first = holds[0]
        told = {
            "who": components_labels.group_words(first.groups) or _("an agent"),
            "task": first.task_id,
        }
        text = _("waits for %(who)s at %(task)s") if first.task_id else _("waits for %(who)s")
        waits, more = text % told, len(holds) - 1
        if not more:
            return waits
        text = ngettext("%(waits)s and %(n)s more", "%(waits)s and %(n)s more", more)
        return text % {"waits": waits, "n": more}
    if run.error:
        return one_line(mask_secrets(run.error), 120)
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
    """The form that starts a workflow; with `errors` it is shown again."""
    before = initial_inputs(workflow)
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


def initial_inputs(workflow: Workflow) -> dict[str, Any]:
    """The inputs a run starts with when nobody changes them: defaults of schema and workflow."""
    schema = workflow.inputs_schema if isinstance(workflow.inputs_schema, dict) else {}
    parts = schema.get("properties", {})
    known = {
        key: part["default"]
        for key, part in (parts.items() if isinstance(parts, dict) else ())
        if isinstance(part, dict) and "default" in part
    }
    return {**known, **(workflow.default_inputs or {})}
