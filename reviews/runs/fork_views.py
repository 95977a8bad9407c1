"""A new run from a checkpoint, and two runs side by side."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django.views.generic import View

from reviews.components.views import SeeOther, page, person, visible_execution, warn
from reviews.decisions.edits import inputs_schema
from reviews.decisions.payload_forms import posted_json, posted_value
from reviews.runs.comparison_page import compare_context
from reviews.runs.fork_page import Draft, fork_context, unchanged
from workflows.common.schemas import FieldError, FormValue
from workflows.executions.access import may_operate
from workflows.executions.services import fork_execution, run_warnings
from workflows.executions.validation import InvalidRequest
from workflows.models import Checkpoint, Execution


class ForkView(LoginRequiredMixin, View):
    """Inputs and context to edit by GET, the new run by POST."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest, execution_id: int, layer: int) -> HttpResponse:
        execution, checkpoint = _checkpoint(request, execution_id, layer)
        is_json = request.GET.get("as") == "json" or not inputs_schema(execution)
        draft = unchanged(execution, checkpoint, "json" if is_json else "form")
        return _show(request, execution, checkpoint, draft)

    def post(self, request: HttpRequest, execution_id: int, layer: int) -> HttpResponse:
        """303 to the new run; 422 shows the page again, everything typed kept."""
        execution, checkpoint = _checkpoint(request, execution_id, layer)
        inputs, context = _inputs(request, execution), _object(request, "context")
        errors = (*inputs.errors, *context.errors)
        if not errors:
            try:
                fork = fork_execution(
                    execution=execution,
                    checkpoint=checkpoint,
                    actor=person(request),
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
                return SeeOther(reverse("reviews:run", args=(fork.pk,)))
        draft = Draft(
            inputs=inputs.value,
            inputs_text=request.POST.get("inputs_json", ""),
            context_text=request.POST.get("context_json", ""),
            mode=_mode(request),
            errors=errors,
            rejected=inputs.rejected,
        )
        return _show(request, execution, checkpoint, draft, status=422)


def _checkpoint(
    request: HttpRequest, execution_id: int, layer: int
) -> tuple[Execution, Checkpoint]:
    execution = visible_execution(request, execution_id)
    if not may_operate(person(request), execution):
        raise PermissionDenied(_("Operators, admins and whoever started a run can go on from it."))
    if layer >= 2**31:
        raise Http404
    found = Checkpoint.objects.filter(execution=execution, layer=layer).first()
    if found is None:
        raise Http404
    return execution, found


def _show(
    request: HttpRequest,
    execution: Execution,
    checkpoint: Checkpoint,
    draft: Draft,
    status: int = 200,
) -> HttpResponse:
    context = {"fork": fork_context(execution, checkpoint, draft)}
    return page(request, "reviews/runs/fork.html", context, section="runs", status=status)


def _mode(request: HttpRequest) -> str:
    return "json" if request.POST.get("mode") == "json" else "form"


def _inputs(request: HttpRequest, execution: Execution) -> FormValue:
    if _mode(request) == "json":
        return _object(request, "inputs")
    return posted_value(inputs_schema(execution), execution.inputs, request.POST.dict())


def _object(request: HttpRequest, name: str) -> FormValue:
    """The JSON object of a text field; an error at `name` when it is none."""
    text = request.POST.get(f"{name}_json", "").replace("\r\n", "\n").strip()
    found = posted_json(text or "{}")
    problem: Any = found.errors[0].message if found.errors else ""
    if not problem and not isinstance(found.value, dict):
        problem = "must be a JSON object"
    return FormValue({}, (FieldError(name, problem),)) if problem else found


@login_required
@require_safe
def compare(request: HttpRequest, left_id: int, right_id: int) -> HttpResponse:
    """Two runs, task by task."""
    left = visible_execution(request, left_id)
    right = visible_execution(request, right_id)
    context = {"compare": compare_context(left, right)}
    return page(request, "reviews/runs/compare.html", context, section="runs")
