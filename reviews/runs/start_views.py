"""Starting and steering runs: everything here is a POST."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from pydantic import ValidationError

from reviews.components.views import SeeOther, page, person, visible_execution, warn
from reviews.decisions.payload_forms import posted_value
from reviews.planner.workflows_page import workflow_context
from reviews.runs.list_page import initial_inputs, starter
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError
from workflows.demo.repository import NoRepository
from workflows.demo.setup import start_demo as begin_demo
from workflows.engine.commands import Abort, AddMessage, Continue, Replan
from workflows.engine.decide import Refused
from workflows.engine.ports import StaleVersion
from workflows.executions.access import may_operate, may_start
from workflows.executions.services import (
    restart_speculation,
    run_warnings,
    start_execution,
    submit_command,
)
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, Workflow


def _run_url(execution: Execution) -> str:
    return reverse("reviews:run", args=(execution.pk,))


def _check_may_start(request: HttpRequest) -> None:
    if not may_start(person(request)):
        raise PermissionDenied(_("Your roles do not start runs. Ask an operator."))


@login_required
@require_POST
def start_demo(request: HttpRequest) -> HttpResponse:
    """Start the demo's workflow on the repository that it is set up for."""
    _check_may_start(request)
    try:
        execution = begin_demo(actor=person(request))
    except (NoRepository, InvalidRequest, Workflow.DoesNotExist) as error:
        messages.error(request, _("The demo run was not started: %(error)s") % {"error": error})
        return SeeOther(reverse("reviews:runs"))
    warn(request, run_warnings(execution))
    return SeeOther(_run_url(execution))


@login_required
@require_POST
def start(request: HttpRequest, workflow_id: int) -> HttpResponse:
    """Start a workflow with the inputs of the form; 422 shows the form again."""
    _check_may_start(request)
    workflow = get_object_or_404(Workflow, pk=workflow_id, enabled=True)
    posted = posted_value(workflow.inputs_schema, initial_inputs(workflow), request.POST)
    errors = posted.errors
    if not errors:
        try:
            inputs = posted.value if isinstance(posted.value, dict) else {}
            execution = start_execution(actor=person(request), workflow=workflow, inputs=inputs)
        except InvalidRequest as invalid:
            errors = tuple(
                FieldError(each.path.removeprefix("inputs").removeprefix("."), each.message)
                for each in invalid.problems
            )
        else:
            warn(request, run_warnings(execution))
            return SeeOther(_run_url(execution))
    context = {
        "workflow": workflow_context(person(request), workflow),
        "starter": starter(workflow, values=posted.value, errors=errors, rejected=posted.rejected),
    }
    return page(request, "reviews/planner/workflow.html", context, section="workflows", status=422)


@login_required
@require_POST
def command(request: HttpRequest, execution_id: int) -> HttpResponse:
    """A message, continue, replan or abort; what cannot be done is said on the run's page."""
    execution = visible_execution(request, execution_id)
    _check_may_send(request, execution)
    try:
        wanted, version = _command(request)
        result = submit_command(
            execution_id=execution.pk,
            command=wanted,
            actor=person(request).get_username(),
            source="web",
            version=version,
        )
    except ValidationError as error:
        messages.error(
            request, _("Nothing was sent: %(error)s.") % {"error": error.errors()[0]["msg"]}
        )
    except StaleVersion:
        messages.error(request, _("The run has moved on in between. Look again, then decide."))
    except Refused as refusal:
        messages.error(request, refusal.message)
    else:
        # What was sent stands in the story, there or among what waits.
        place = "queued" if result.outcome == "queued" else f"e{result.version}"
        return SeeOther(f"{_run_url(execution)}#{place}")
    return SeeOther(_run_url(execution))


@login_required
@require_POST
def work_ahead_again(request: HttpRequest, execution_id: int) -> HttpResponse:
    """Let work ahead go on for the run's workflow after it stopped itself."""
    execution = visible_execution(request, execution_id)
    if not may_operate(person(request), execution):
        raise PermissionDenied(_("Operators, admins and whoever started a run can steer it."))
    restart_speculation(execution=execution)
    messages.success(request, _("Work is done ahead again; earlier misses count no longer."))
    return SeeOther(_run_url(execution))


def _check_may_send(request: HttpRequest, execution: Execution) -> None:
    """Who may take part in runs may speak in those they see; steering one is for fewer."""
    user = person(request)
    if request.POST.get("kind") == "message" and "ask_agent" not in request.POST:
        if not may_start(user):
            raise PermissionDenied(_("Your roles read conversations only."))
    elif not may_operate(user, execution):
        raise PermissionDenied(_("Operators, admins and whoever started a run can steer it."))


def _command(
    request: HttpRequest,
) -> tuple[Abort | AddMessage | Continue | Replan, int | None]:
    """The posted command and the version it is meant for; raises ValidationError or Refused."""
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
    raise Refused("unknown", "This page does not know that command.")
