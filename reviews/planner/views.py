"""Planning from words: suggest, edit, start, save.  What cannot be done shows the form again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.views import View

from reviews.components.views import SeeOther, page, person, warn
from reviews.planner import drafts as drafts
from reviews.planner.drafts import Draft
from reviews.planner.page import may_save, planner_context
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plan_validation import Problem
from workflows.executions.access import may_start
from workflows.executions.definitions import save_workflow, workflow_warnings
from workflows.executions.services import run_warnings, start_execution
from workflows.executions.validation import InvalidRequest, check_groups, check_plan, check_policy
from workflows.models import Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_UNTITLED = "A plan from words"


class PlannerView(LoginRequiredMixin, View):
    """An intent becomes a plan, the plan becomes a run or a workflow."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest) -> HttpResponse:
        """An empty page, or with `?workflow=` the plan of a workflow."""
        _check(request)
        number = request.GET.get("workflow", "")
        draft = _of_workflow(_workflow(request, number)) if number else Draft()
        return self._show(request, draft)

    def post(self, request: HttpRequest) -> HttpResponse:
        _check(request)
        draft = drafts.posted_draft(request.POST)
        action, _, about = request.POST.get("action", "").partition(":")
        if action == "start":
            return self._start(request, draft)
        if action == "save":
            return self._save(request, draft)
        if action == "suggest":
            draft = drafts.suggested(draft)
        elif action == "remove" and about.isascii() and about.isdigit():
            draft = drafts.removed(draft, int(about[:6]))
        elif action == "add":
            draft = drafts.added(draft, (about or request.POST.get("add_tool", "")).strip())
        return self._show(request, draft, status=422 if draft.problems else 200)

    def _start(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        problems = [*draft.problems, *_not_given(draft)]
        if not problems:
            try:
                execution = start_execution(
                    actor=person(request),
                    plan=draft.plan,
                    inputs=draft.inputs,
                    policy=draft.policy,
                    title=draft.title or draft.intent[:200] or _UNTITLED,
                )
            except InvalidRequest as invalid:
                problems = list(invalid.problems)
            else:
                warn(request, run_warnings(execution))
                return SeeOther(reverse("reviews:run", args=(execution.pk,)))
        return self._show(request, replace(draft, problems=tuple(problems)), status=422)

    def _save(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        if not may_save(person(request)):
            raise PermissionDenied(_("Admins keep workflows. You can start the plan as a run."))
        if not draft.problems:
            try:
                workflow = _saved(request, draft)
            except InvalidRequest as invalid:
                draft = replace(draft, problems=invalid.problems)
            else:
                warn(request, workflow_warnings(workflow))
                return SeeOther(reverse("reviews:workflow", args=(workflow.pk,)))
        return self._show(request, draft, status=422)

    def _show(self, request: HttpRequest, draft: Draft, status: int = 200) -> HttpResponse:
        checked = _faults(draft, person(request))
        kept = tuple(each for each in draft.problems if each not in checked)
        draft = replace(draft, problems=kept)
        context = {"p": planner_context(person(request), draft, checked)}
        return page(
            request, "reviews/planner/planner.html", context, section="workflows", status=status
        )


def _check(request: HttpRequest) -> None:
    if not may_start(person(request)):
        raise PermissionDenied(_("Your roles do not start runs. Ask an operator."))


def _workflow(request: HttpRequest, number: str) -> Workflow:
    """The workflow to be edited; Http404 for those who may not."""
    found = Workflow.objects.filter(pk=parse_natural_number(number) or 0).first()
    if found is None or not may_save(person(request)):
        raise Http404
    return found


def _of_workflow(workflow: Workflow) -> Draft:
    plan = workflow.plan if isinstance(workflow.plan, dict) else {"tasks": []}
    return Draft(
        intent=workflow.description,
        title=workflow.title,
        workflow=str(workflow.pk),
        inputs=dict(workflow.default_inputs or {}),
        plan=plan,
        policy=dict(workflow.policy or {}),
    )


def _faults(draft: Draft, user: User) -> tuple[Problem, ...]:
    """What keeps the plan from starting, as the same check as everywhere finds it."""
    found: list[Problem] = []
    if draft.tasks:
        checks: tuple[Callable[[], object], ...] = (
            lambda: check_groups(plan=check_plan(draft.plan, chosen_by=user)),
            lambda: check_groups(policy=check_policy(draft.policy)),
        )
        for check in checks:
            try:
                check()
            except InvalidRequest as invalid:
                found += invalid.problems
    return tuple(found)


def _not_given(draft: Draft) -> list[Problem]:
    return [
        Problem(f"inputs.{name}", "required", f"{about['task']} needs this input")
        for name, about in drafts.missing_inputs(draft).items()
    ]


def _saved(request: HttpRequest, draft: Draft) -> Workflow:
    title = draft.title or draft.intent[:200]
    if not title:
        raise InvalidRequest((Problem("title", "required", "give the workflow a name"),))
    fields = {"title": title, "plan": draft.plan, "policy": draft.policy}
    if draft.workflow:
        workflow = _workflow(request, draft.workflow)
        return save_workflow(actor=person(request), fields=fields, workflow=workflow)
    name = slugify(title)[:100]
    if not name:
        raise InvalidRequest((Problem("title", "required", "use some letters or digits"),))
    asked = drafts.missing_inputs(draft)
    fields |= {
        "name": name,
        "description": draft.intent,
        "default_inputs": draft.inputs,
        "inputs_schema": _schema(asked),
    }
    return save_workflow(actor=person(request), fields=fields)


def _schema(asked: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What a run of the workflow has to be given: inputs that the plan reads and nobody gave."""
    if not asked:
        return {}
    parts = {
        name: {"type": list(types)} if (types := about["types"]) else {}
        for name, about in asked.items()
    }
    return {"type": "object", "properties": parts, "required": sorted(asked)}
