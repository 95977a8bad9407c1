"""Pages of plans, workflows and tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.text import slugify
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.http import require_http_methods, require_safe

from graphrag.catalogue.selectors import tools as all_tools
from graphrag.catalogue.tool_form import ToolForm
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.models import Tool
from graphrag.retrieval.search import search
from reviews.authoring import planner_draft
from reviews.authoring.editor_draft import of_planner
from reviews.authoring.editor_views import EditorView
from reviews.authoring.pages import (
    learned_context,
    planner_context,
    tool_context,
    workflow_context,
    workflows_context,
)
from reviews.authoring.planner_draft import Draft
from reviews.authoring.rights import check_may_save, check_may_start, workflow_to_change_or_404
from reviews.authoring.stored_drafts import stored_draft
from reviews.backtests.pages import rules_summary
from reviews.components.admin_rights import check, log_change, may
from reviews.components.views import (
    SeeOther,
    current_user,
    page,
    search_text,
    visible_execution,
    warn,
)
from reviews.runs.pages import starter
from workflows.common.redaction import mask_secrets
from workflows.engine.plans.validation import Problem
from workflows.executions.access import may_start
from workflows.executions.definitions import (
    WorkflowChanged,
    save_workflow,
    seen_mark,
    workflow_warnings,
)
from workflows.executions.services import run_warnings, start_execution
from workflows.executions.validation import InvalidRequest, check_groups, check_plan, check_policy
from workflows.models import Capability, McpServer, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User


_UNTITLED = "A plan from words"


class PlannerView(LoginRequiredMixin, View):
    """Plan from a task description, then start the plan or save it as a workflow.

    The class attributes name this page, the pages after a save and a start, the page of the
    versions, and the editor that a plan opens in.
    """

    http_method_names = ["get", "head", "post"]
    planner_url = "reviews:planner"
    workflow_url = "reviews:workflow"
    run_url = "reviews:run"
    versions_url = "reviews:workflow_versions"
    editor: type[EditorView] = EditorView

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show an empty form, or the plan of `?workflow=`."""
        user = current_user(request)
        check_may_start(user)
        number = request.GET.get("workflow", "")
        draft = _of_workflow(workflow_to_change_or_404(user, number)) if number else Draft()
        return self._show(request, draft)

    def post(self, request: HttpRequest) -> HttpResponse:
        check_may_start(current_user(request))
        draft = planner_draft.posted_draft(request.POST)
        action, _, about = request.POST.get("action", "").partition(":")
        if action == "start":
            return self._start(request, draft)
        if action == "save":
            return self._save(request, draft)
        if action == "overwrite":
            return self._save(request, replace(draft, seen=about))
        if action == "edit":
            opened = of_planner(draft)
            stored = stored_draft(current_user(request), opened)
            return self.editor().show(request, opened, stored=stored)
        if action == "suggest":
            draft = planner_draft.suggested(draft, current_user(request))
        elif action == "remove" and about.isascii() and about.isdigit():
            draft = planner_draft.removed(draft, int(about[:6]))
        elif action == "add":
            draft = planner_draft.added(draft, (about or request.POST.get("add_tool", "")).strip())
        return self._show(request, draft, status=422 if draft.problems else 200)

    def _start(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        problems = [*draft.problems, *_not_given(draft)]
        if not problems:
            try:
                execution = start_execution(
                    actor=current_user(request),
                    plan=draft.plan,
                    inputs=draft.inputs,
                    policy=draft.policy,
                    title=draft.title or draft.intent or _UNTITLED,
                )
            except InvalidRequest as invalid:
                problems = list(invalid.problems)
            else:
                warn(request, run_warnings(execution))
                return SeeOther(reverse(self.run_url, args=(execution.pk,)))
        return self._show(request, replace(draft, problems=tuple(problems)), status=422)

    def _save(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        user = current_user(request)
        check_may_save(user)
        if not draft.problems:
            try:
                workflow = _saved(user, draft)
            except WorkflowChanged as conflict:
                return self._show(request, draft, status=422, conflict=conflict)
            except InvalidRequest as invalid:
                draft = replace(draft, problems=invalid.problems)
            else:
                warn(request, workflow_warnings(workflow))
                return SeeOther(reverse(self.workflow_url, args=(workflow.pk,)))
        return self._show(request, draft, status=422)

    def _show(
        self,
        request: HttpRequest,
        draft: Draft,
        status: int = 200,
        conflict: WorkflowChanged | None = None,
    ) -> HttpResponse:
        checked = _faults(draft, current_user(request))
        kept = tuple(each for each in draft.problems if each not in checked)
        draft = replace(draft, problems=kept)
        user = current_user(request)
        p = planner_context(user, draft, checked, conflict, self.versions_url)
        return self.page(request, {"p": {**p, "url": reverse(self.planner_url)}}, status)

    def page(self, request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
        """Render the whole page."""
        template = "reviews/authoring/planner.html"
        return page(request, template, context, section="workflows", status=status)


def _of_workflow(workflow: Workflow) -> Draft:
    plan = workflow.plan if isinstance(workflow.plan, dict) else {"tasks": []}
    return Draft(
        intent=workflow.description,
        title=workflow.title,
        workflow=str(workflow.pk),
        seen=seen_mark(workflow),
        inputs=dict(workflow.default_inputs or {}),
        plan=plan,
        policy=dict(workflow.policy or {}),
    )


def _faults(draft: Draft, user: User) -> tuple[Problem, ...]:
    """Return the validation problems of the plan and policy."""
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
        for name, about in planner_draft.missing_inputs(draft).items()
    ]


def _saved(user: User, draft: Draft) -> Workflow:
    # Masked here too: the name is made of it, and a cut secret may not look like one.
    title = mask_secrets(draft.title or draft.intent)[:200]
    if not title:
        raise InvalidRequest((Problem("title", "required", "enter a name for the workflow"),))
    fields = {"title": title, "plan": draft.plan, "policy": draft.policy}
    if draft.workflow:
        workflow = workflow_to_change_or_404(user, draft.workflow)
        return save_workflow(actor=user, fields=fields, workflow=workflow, seen=draft.seen)
    name = slugify(title)[:100]
    if not name:
        raise InvalidRequest((Problem("title", "required", "use at least one letter or digit"),))
    missing = planner_draft.missing_inputs(draft)
    fields |= {
        "name": name,
        "description": draft.intent,
        "default_inputs": draft.inputs,
        "inputs_schema": _schema(missing),
    }
    return save_workflow(actor=user, fields=fields)


def _schema(missing: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the inputs schema: required inputs that the plan reads and the draft lacks."""
    if not missing:
        return {}
    parts = {
        name: {"type": list(types)} if (types := about["types"]) else {}
        for name, about in missing.items()
    }
    return {"type": "object", "properties": parts, "required": sorted(missing)}


# --- workflows ------------------------------------------------------------------------------------


@login_required
@require_safe
def workflows(request: HttpRequest) -> HttpResponse:
    """List enabled workflows."""
    context = workflows_context(current_user(request))
    return page(request, "reviews/authoring/workflows.html", context, section="workflows")


@login_required
@require_safe
def workflow(request: HttpRequest, workflow_id: int) -> HttpResponse:
    """Show a workflow with its start form."""
    found = get_object_or_404(Workflow, pk=workflow_id, enabled=True)
    user = current_user(request)
    context = {
        "workflow": workflow_context(user, found),
        "starter": starter(found) if may_start(user) else None,
        "rules": rules_summary(user, found),
    }
    return page(request, "reviews/authoring/workflow.html", context, section="workflows")


# --- tools ----------------------------------------------------------------------------------------


_FOUND = 30
_LISTED = 1000


@login_required
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    """Every tool by name, or those that fit a description of what is to be done."""
    q = search_text(request, "q")
    rows: Iterable[Tool | ToolRecord] = all_tools()[:_LISTED]
    if q:
        rows = [found.tool for found in search(q, limit=_FOUND).found]
    context = {
        "rows": tuple(_row(tool) for tool in rows),
        "q": q,
        "may_view_servers": may(request, "view", McpServer),
        "may_view_capabilities": may(request, "view", Capability),
    }
    return page(request, "reviews/authoring/tools.html", context, section="tools")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def tool(request: HttpRequest, name: str) -> HttpResponse:
    """Show a tool: its arguments and output, its use in past runs, and what people set for it."""
    found = all_tools().filter(name=name).first() if "\0" not in name else None
    if found is None:
        raise Http404
    form = None
    if request.method == "POST":
        check(request, "change", Tool)
        form = ToolForm(request.POST, instance=found)
        if form.is_valid():
            form.save_policy()
            log_change(current_user(request), found, form)
            messages.success(request, _("Saved."))
            return SeeOther(reverse("reviews:tool", args=(name,)))
        found = all_tools().get(name=name)
    elif may(request, "change", Tool):
        form = ToolForm(instance=found)
    context = {"tool": tool_context(found), "row": _row(found), "form": form}
    status = 422 if request.method == "POST" else 200
    return page(request, "reviews/authoring/tool.html", context, section="tools", status=status)


@login_required
@require_safe
def learned(request: HttpRequest, execution_id: int) -> HttpResponse:
    """What the tool graph took from one run."""
    execution = visible_execution(request, execution_id)
    context = learned_context(execution)
    return page(request, "reviews/authoring/learned.html", context, section="runs")


def _row(tool: Tool | ToolRecord) -> dict[str, Any]:
    return {
        "url": reverse("reviews:tool", args=(tool.name,)),
        "name": tool.name,
        "description": tool.description,
        "kind": tool.kind,
        "permission_set": tool.permission_set,
        "read_only": tool.read_only,
        "can_destroy": tool.can_destroy,
        "missing": not tool.enabled,
        "input_json": json.dumps(tool.input_schema, indent=2, ensure_ascii=False),
        "output_json": json.dumps(tool.output_schema, indent=2, ensure_ascii=False)
        if tool.output_schema
        else "",
    }
