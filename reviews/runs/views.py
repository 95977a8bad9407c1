"""Pages of runs: list, one run, start, commands, fork and plan changes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import View
from pydantic import ValidationError

from reviews.audit.pages import history_url
from reviews.authoring.pages import workflow_context
from reviews.authoring.rights import check_may_start
from reviews.components.labels import run_title
from reviews.components.reasons import render_reason
from reviews.components.views import (
    SeeOther,
    current_user,
    cursor_or_404,
    fragment,
    is_htmx,
    page,
    search_text,
    visible_execution,
    warn,
)
from reviews.decisions.edits import inputs_schema
from reviews.decisions.masking import NotRestorable, restored
from reviews.decisions.payload_forms import posted_json, posted_value
from reviews.retention.selectors import erasure_of
from reviews.runs.pages import (
    Draft,
    event_context,
    fork_context,
    masked_inputs,
    revision_context,
    run_context,
    runs_context,
    starter,
    task_data_context,
    unchanged,
)
from reviews.runs.window import RunQuery
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError, FormValue
from workflows.demo.repository import NoRepository
from workflows.demo.setup import start_demo as begin_demo
from workflows.engine.protocol.commands import Abort, AddMessage, Continue, Replan
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import StaleVersion
from workflows.engine.values.reasons import Reason
from workflows.executions.access import actor_of, may_operate, may_start, with_erased
from workflows.executions.selectors import live_version, tasks_of
from workflows.executions.services import (
    fork_execution,
    restart_speculation,
    run_warnings,
    start_execution,
    submit_command,
)
from workflows.executions.validation import InvalidRequest
from workflows.models import Checkpoint, Execution, PlanRevision, Workflow


@login_required
@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """List runs, newest first."""
    with cursor_or_404():
        context = runs_context(
            current_user(request),
            q=search_text(request, "q"),
            status=request.GET.get("status", ""),
            cursor=request.GET.get("cursor", ""),
        )
    if is_htmx(request):
        return fragment(request, "reviews/runs/_rows.html", context)
    return page(request, "reviews/runs/runs.html", context, section="runs")


def _erased_run(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Show when and why the data of a run was erased; raise Http404 for other runs."""
    rows = with_erased(current_user(request)).filter(erased_at__isnull=False)
    execution = get_object_or_404(rows, pk=execution_id)
    context = {
        "title": run_title(execution.title, execution.pk),
        "erased_at": execution.erased_at,
        "entry": erasure_of(execution.pk),
        "records_url": history_url({"execution": str(execution.pk)}),
    }
    return page(
        request, "reviews/runs/erased.html", context, section="runs", status=HTTPStatus.GONE
    )


@login_required
@require_safe
def run(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Show a run; htmx gets only the part that changes."""
    try:
        execution = visible_execution(request, execution_id)
    except Http404:
        return _erased_run(request, execution_id)
    query = RunQuery.of(request.GET)
    if is_htmx(request) and query.part == "output":
        return _output_news(request, execution)
    if is_htmx(request) and query.part:
        return run_part(request, execution, query)
    context: dict[str, Any] = {"run": run_context(current_user(request), execution, query=query)}
    if is_htmx(request):
        # The actions contain text being typed: they are sent again only if they change.
        context["new_actions"] = request.GET.get("offers", "") != context["run"]["offers"]
        return fragment(request, "reviews/runs/_news.html", context)
    return page(request, "reviews/runs/run.html", context, section="runs")


def _output_news(request: HttpRequest, execution: Execution) -> HttpResponse:
    """Let the page refresh itself if a remote task has printed more than the page shows."""
    latest = live_version(tasks_of(execution, data=False))
    response = HttpResponse(status=HTTPStatus.NO_CONTENT, headers={"Cache-Control": "no-store"})
    if latest != request.GET.get("seen", ""):
        response["HX-Trigger"] = "holdpoint:refresh"
    return response


def run_part(request: HttpRequest, execution: Execution, query: RunQuery) -> HttpResponse:
    """Return the data of one task or event, which the page of a long run loads when it is opened.

    Raises Http404 for what the run does not have.
    """
    if query.part == "task":
        template = "reviews/runs/_task_data.html"
        context = {"task": task_data_context(current_user(request), execution, query.task)}
    else:
        template = "reviews/runs/_event_details.html"
        context = {"entry": event_context(execution, query.since)}
    if None in context.values():
        raise Http404
    return fragment(request, template, context)


# --- start and steer ------------------------------------------------------------------------------


def _run_url(execution: Execution) -> str:
    return reverse("reviews:run", args=(execution.pk,))


@login_required
@require_POST
def start_demo(request: HttpRequest) -> HttpResponse:
    """Start the demo workflow on its repository."""
    check_may_start(current_user(request))
    try:
        execution = begin_demo(actor=current_user(request))
    except (NoRepository, InvalidRequest, Workflow.DoesNotExist) as error:
        messages.error(request, _("The demo run was not started: %(error)s") % {"error": error})
        return SeeOther(reverse("reviews:runs"))
    warn(request, run_warnings(execution))
    return SeeOther(_run_url(execution))


@login_required
@require_POST
def start(request: HttpRequest, workflow_id: int) -> HttpResponse:
    """Start a workflow with the inputs of the form; 422 shows the form again."""
    check_may_start(current_user(request))
    workflow = get_object_or_404(Workflow, pk=workflow_id, enabled=True)
    shown = masked_inputs(workflow)
    posted = posted_value(workflow.inputs_schema, shown.value, request.POST)
    errors = posted.errors
    if not errors:
        try:
            inputs = restored(posted.value, shown) if isinstance(posted.value, dict) else {}
            execution = start_execution(
                actor=current_user(request), workflow=workflow, inputs=inputs
            )
        except NotRestorable as unknown:
            errors = (FieldError(unknown.path, unknown.message),)
        except InvalidRequest as invalid:
            errors = tuple(
                FieldError(each.path.removeprefix("inputs").removeprefix("."), each.message)
                for each in invalid.problems
            )
        else:
            warn(request, run_warnings(execution))
            return SeeOther(_run_url(execution))
    context = {
        "workflow": workflow_context(current_user(request), workflow),
        "starter": starter(workflow, values=posted.value, errors=errors, rejected=posted.rejected),
    }
    return page(
        request, "reviews/authoring/workflow.html", context, section="workflows", status=422
    )


#: Kind of a command → the error if its text is missing or too long.
_INVALID = {
    "message": N_("The message was not sent. Write a message."),
    "replan": N_("The run was not replanned. Write a requirement of at most 4000 characters."),
    "abort": N_("The run was not aborted. Write a reason of at most 4000 characters."),
}


@login_required
@require_POST
def command(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Submit a message, continue, replan or abort; errors appear on the page of the run."""
    execution = visible_execution(request, execution_id)
    return SeeOther(f"{_run_url(execution)}{submit_posted(request, execution)}")


def submit_posted(request: HttpRequest, execution: Execution) -> str:
    """Submit the posted command; return where its page shows it (`#e12`), "" after an error.

    Raises PermissionDenied. Errors become messages of the next page.
    """
    _check_may_send(request, execution)
    try:
        wanted, version = _command(request)
        result = submit_command(
            execution_id=execution.pk,
            command=wanted,
            actor=actor_of(current_user(request)),
            source="web",
            version=version,
        )
    except ValidationError:
        messages.error(request, _(_INVALID[request.POST["kind"]]))
    except StaleVersion:
        messages.error(request, _("The run has changed. Check it, then submit again."))
    except Refused as refusal:
        messages.error(request, render_reason(refusal.reason))
    else:
        if result.failure:
            text = _("The plan was not changed: %(reason)s")
            messages.warning(request, text % {"reason": render_reason(result.failure)})
        for question in result.questions:
            messages.warning(request, _("Unsure: %(question)s") % {"question": question})
        # Jump to the submitted command, in the timeline or the queue.
        return "#queued" if result.outcome == "queued" else f"#e{result.version}"
    return ""


@login_required
@require_POST
def resume_speculation(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Resume speculation for the run's workflow after it stopped automatically."""
    execution = visible_execution(request, execution_id)
    if not may_operate(current_user(request), execution):
        raise PermissionDenied(
            _("Operators, admins and the person who started a run can steer it.")
        )
    restart_speculation(execution=execution)
    messages.success(request, _("Tasks are precomputed again; earlier misses no longer count."))
    return SeeOther(_run_url(execution))


def _check_may_send(request: HttpRequest, execution: Execution) -> None:
    """Check permission: messages need the right to start runs, other commands to operate it."""
    user = current_user(request)
    if request.POST.get("kind") == "message" and "ask_agent" not in request.POST:
        if not may_start(user):
            raise PermissionDenied(_("Your roles can only read conversations."))
    elif not may_operate(user, execution):
        raise PermissionDenied(
            _("Operators, admins and the person who started a run can steer it.")
        )


def _command(
    request: HttpRequest,
) -> tuple[Abort | AddMessage | Continue | Replan, int | None]:
    """Parse the posted command and its version; raises ValidationError or Refused."""
    data = request.POST
    match data.get("kind"):
        case "message":
            text = data.get("text", "").replace("\0", "").strip()
            return AddMessage(content=text, ask_agent="ask_agent" in data), None
        case "replan":
            text = data.get("requirement", "").replace("\0", "").strip()
            return Replan(new_requirement=text), None
        case "abort":
            return Abort(reason=data.get("reason", "").replace("\0", "").strip()), None
        case "continue":
            sent = parse_natural_number(data.get("version", ""))
            return Continue(), -1 if sent is None else sent
    raise Refused("unknown", Reason("unknown_command"))


# --- fork -----------------------------------------------------------------------------------------


class ForkView(LoginRequiredMixin, View):
    """Show inputs and context to edit; POST starts the fork.

    The admin has the same form in its own frame: `page` and `run_url` are replaced there.
    """

    http_method_names = ["get", "head", "post"]

    def page(self, request: HttpRequest, fork: dict[str, Any], status: int) -> HttpResponse:
        """Render the form."""
        context = {"fork": fork}
        return page(request, "reviews/runs/fork.html", context, section="runs", status=status)

    def run_url(self, execution_id: int) -> str:
        """Return the page of a run."""
        return reverse("reviews:run", args=(execution_id,))

    def _show(
        self, execution: Execution, checkpoint: Checkpoint, draft: Draft, status: int = 200
    ) -> HttpResponse:
        fork = fork_context(execution, checkpoint, draft, url=self.request.path)
        fork["run_url"] = self.run_url(execution.pk)
        return self.page(self.request, fork, status)

    def get(self, request: HttpRequest, execution_id: int, layer: int) -> HttpResponse:
        execution, checkpoint = _checkpoint(request, execution_id, layer)
        is_json = request.GET.get("as") == "json" or not inputs_schema(execution)
        draft = unchanged(execution, checkpoint, "json" if is_json else "form")
        return self._show(execution, checkpoint, draft)

    def post(self, request: HttpRequest, execution_id: int, layer: int) -> HttpResponse:
        """Redirect to the new run, or show the form again with the entered values (422)."""
        execution, checkpoint = _checkpoint(request, execution_id, layer)
        inputs, context = _inputs(request, execution), _object(request, "context")
        errors = (*inputs.errors, *context.errors)
        if not errors:
            try:
                fork = fork_execution(
                    execution=execution,
                    checkpoint=checkpoint,
                    actor=current_user(request),
                    inputs=inputs.value,
                    context=context.value,
                    whole=True,
                )
            except InvalidRequest as invalid:
                errors = tuple(
                    FieldError(each.path.removeprefix("inputs").removeprefix("."), each.message)
                    for each in invalid.problems
                )
            else:
                warn(request, run_warnings(fork))
                return SeeOther(self.run_url(fork.pk))
        draft = Draft(
            inputs=inputs.value,
            inputs_text=request.POST.get("inputs_json", ""),
            context_text=request.POST.get("context_json", ""),
            mode=_mode(request),
            errors=errors,
            rejected=inputs.rejected,
        )
        return self._show(execution, checkpoint, draft, status=422)


def _checkpoint(
    request: HttpRequest, execution_id: int, layer: int
) -> tuple[Execution, Checkpoint]:
    execution = visible_execution(request, execution_id)
    if not may_operate(current_user(request), execution):
        raise PermissionDenied(_("Operators, admins and the person who started a run can fork it."))
    if layer >= 2**31:
        raise Http404
    found = Checkpoint.objects.filter(execution=execution, layer=layer).first()
    if found is None:
        raise Http404
    return execution, found


def _mode(request: HttpRequest) -> str:
    return "json" if request.POST.get("mode") == "json" else "form"


def _inputs(request: HttpRequest, execution: Execution) -> FormValue:
    if _mode(request) == "json":
        return _object(request, "inputs")
    return posted_value(inputs_schema(execution), execution.inputs, request.POST.dict())


def _object(request: HttpRequest, name: str) -> FormValue:
    """Parse the JSON object of a text field; reports an error at `name` otherwise."""
    text = request.POST.get(f"{name}_json", "").replace("\r\n", "\n").strip()
    found = posted_json(text or "{}")
    problem: Any = found.errors[0].message if found.errors else ""
    if not problem and not isinstance(found.value, dict):
        problem = "must be a JSON object"
    return FormValue({}, (FieldError(name, problem),)) if problem else found


# --- plan changes ---------------------------------------------------------------------------------


@login_required
@require_safe
def plan_change(request: HttpRequest, execution_id: int, number: int) -> HttpResponse:
    """Show the changes of plan revision `number` as a diagram and a list."""
    execution = visible_execution(request, execution_id)
    try:
        context = {"c": revision_context(execution, number)}
    except PlanRevision.DoesNotExist:
        raise Http404 from None
    return page(request, "reviews/runs/plan_change.html", context, section="runs")
