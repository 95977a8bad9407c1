"""The plan editor: a workflow drawn as a DAG beside the form of the selected task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.http import require_safe

from reviews.components.views import (
    SeeOther,
    current_user,
    fragment,
    is_htmx,
    page,
    search_text,
    visible_execution,
    warn,
)
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.validation import Problem
from workflows.executions.definitions import (
    WorkflowChanged,
    definition_problems,
    save_workflow,
    workflow_warnings,
)
from workflows.executions.services import run_warnings, start_execution
from workflows.executions.validation import InvalidRequest
from workflows.models import Workflow

from . import editor_draft
from .editor_draft import EditorDraft
from .editor_import import ACTIONS, imported
from .editor_inputs import examples_of, inputs_not_given, operated_inputs
from .editor_pages import editor_context, offered_tools
from .editor_policy import with_policy
from .plan_edits import TOO_MANY
from .rights import (
    check_may_save,
    check_may_start,
    workflow_or_404,
    workflow_to_change_or_404,
)
from .run_plans import draft_of_copy, draft_of_run
from .stored_drafts import StoredDraft, discard, keep, stored_draft
from .workflow_files import new_name

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class EditorView(LoginRequiredMixin, View):
    """Edit a workflow, then save it or start its plan.

    The class attributes name this page, the pages after a save and a start, and the page of the
    versions.
    """

    http_method_names = ["get", "head", "post"]
    editor_url = "reviews:editor"
    workflow_url = "reviews:workflow"
    run_url = "reviews:run"
    versions_url = "reviews:workflow_versions"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Open an empty plan, or that of `?workflow=`, `?copy=` or `?run=`."""
        user = current_user(request)
        check_may_start(user)
        draft = _opened(request)
        return self.show(request, draft, stored=stored_draft(user, draft))

    def post(self, request: HttpRequest) -> HttpResponse:
        user = current_user(request)
        check_may_start(user)
        draft = editor_draft.posted(request.POST)
        if any(each.code == TOO_MANY for each in draft.problems):
            return self.show(request, draft, status=422)
        action = request.POST.get("action", "")
        if action == "continue_draft":
            return self._continue(request, draft)
        if action == "discard_draft":
            discard(user, draft)
            return self.show(request, draft)
        if action == "start":
            return self._start(request, draft)
        if action == "save":
            return self._save(request, draft)
        if action.startswith("overwrite:"):
            return self._save(request, replace(draft, seen=action.removeprefix("overwrite:")))
        return self._change(request, draft, action)

    def _change(self, request: HttpRequest, draft: EditorDraft, action: str) -> HttpResponse:
        offer = None
        if action in ACTIONS:
            draft, offer = imported(current_user(request), draft, action, request.POST)
        elif action.startswith("input:"):
            draft = operated_inputs(draft, action.removeprefix("input:"))
        elif action == "connect_to":
            connection = f"connect:{draft.selected}>{request.POST.get('connect_to', '')}"
            draft = editor_draft.operated(draft, connection)
        elif action == "add_input":
            name = request.POST.get(f"t{draft.selected}.new_input", "")
            draft = editor_draft.operated(draft, f"add_input:{name}")
        else:
            draft = editor_draft.operated(draft, action)
        stored = _undecided(request, draft)
        if not stored:
            keep(current_user(request), draft)
        if action == "check" and is_htmx(request):
            context = {"e": _context(request, draft)}
            return fragment(request, "reviews/authoring/_editor_checked.html", context)
        return self.show(request, draft, stored=stored, offer=offer)

    def _start(self, request: HttpRequest, draft: EditorDraft) -> HttpResponse:
        problems = (*draft.problems, *inputs_not_given(draft))
        if not problems:
            try:
                execution = start_execution(
                    actor=current_user(request),
                    plan=draft.plan,
                    inputs=examples_of(draft).values,
                    policy=draft.policy,
                    title=draft.title,
                )
            except InvalidRequest as invalid:
                problems = invalid.problems
            else:
                warn(request, run_warnings(execution))
                return _go(request, reverse(self.run_url, args=(execution.pk,)))
        stored = _undecided(request, draft)
        return self.show(request, replace(draft, problems=problems), status=422, stored=stored)

    def _save(self, request: HttpRequest, draft: EditorDraft) -> HttpResponse:
        user = current_user(request)
        check_may_save(user)
        if not draft.problems:
            try:
                workflow = _saved(user, draft)
            except WorkflowChanged as conflict:
                stored = _undecided(request, draft)
                return self.show(request, draft, status=422, conflict=conflict, stored=stored)
            except InvalidRequest as invalid:
                draft = replace(draft, problems=invalid.problems)
            else:
                if not _undecided(request, draft):
                    discard(user, draft)
                warn(request, workflow_warnings(workflow))
                return _go(request, reverse(self.workflow_url, args=(workflow.pk,)))
        return self.show(request, draft, status=422, stored=_undecided(request, draft))

    def _continue(self, request: HttpRequest, draft: EditorDraft) -> HttpResponse:
        """Show the stored draft, with who saved its workflow meanwhile."""
        found = stored_draft(current_user(request), draft)
        if found is None:
            return self.show(request, draft)
        return self.show(request, found.draft, conflict=found.conflict)

    def show(
        self,
        request: HttpRequest,
        draft: EditorDraft,
        status: int = 200,
        conflict: WorkflowChanged | None = None,
        stored: StoredDraft | None = None,
        offer: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Render the editor, or only its form for htmx.

        `stored` is an earlier draft that the user has neither continued nor discarded, `offer` the
        choice of what an imported file becomes.
        """
        e = {
            **_context(request, draft, conflict, self.versions_url),
            "stored": stored,
            "offer": offer,
            "url": reverse(self.editor_url),
        }
        if is_htmx(request):
            return fragment(request, "reviews/authoring/_editor.html", {"e": e}, status=status)
        return self.page(request, {"e": e}, status)

    def page(self, request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
        """Render the whole page."""
        template = "reviews/authoring/editor.html"
        return page(request, template, context, section="workflows", status=status)


def _go(request: HttpRequest, url: str) -> HttpResponse:
    """Redirect; htmx would put the answer to a 303 into the page."""
    if is_htmx(request):
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return SeeOther(url)


def _undecided(request: HttpRequest, draft: EditorDraft) -> StoredDraft | None:
    """Return the stored draft that the page offers, if it still does."""
    if "stored_draft" not in request.POST:
        return None
    return stored_draft(current_user(request), draft)


def _opened(request: HttpRequest) -> EditorDraft:
    user = current_user(request)
    if number := request.GET.get("workflow", ""):
        return editor_draft.of_workflow(workflow_to_change_or_404(user, number))
    if number := request.GET.get("copy", ""):
        return draft_of_copy(user, workflow_or_404(user, number))
    if number := request.GET.get("run", ""):
        return draft_of_run(visible_execution(request, parse_natural_number(number) or 0))
    return EditorDraft()


def _context(
    request: HttpRequest,
    draft: EditorDraft,
    conflict: WorkflowChanged | None = None,
    versions_page: str = EditorView.versions_url,
) -> dict[str, Any]:
    user = current_user(request)
    checked = _problems(user, draft) if draft.tasks else ()
    context = editor_context(user, draft, checked, conflict, versions_page)
    problems = tuple(dict.fromkeys((*draft.problems, *checked)))
    return with_policy(user, draft, context, problems, request.POST.get("simulate", ""))


def _problems(user: User, draft: EditorDraft) -> tuple[Problem, ...]:
    fields = {
        "plan": draft.plan,
        "policy": draft.policy,
        "inputs_schema": draft.inputs_schema,
        "default_inputs": draft.default_inputs,
    }
    # An invalid task makes pydantic count it out and call the whole plan too short.
    return tuple(
        each for each in definition_problems(fields, actor=user) if each.code != "too_short"
    )


def _saved(user: User, draft: EditorDraft) -> Workflow:
    if not draft.title:
        raise InvalidRequest((Problem("title", "required", _("enter a name for the workflow")),))
    fields = {
        "title": draft.title,
        "description": draft.description,
        "plan": draft.plan,
        "policy": draft.policy,
        "inputs_schema": draft.inputs_schema,
        "default_inputs": draft.default_inputs,
    }
    if not draft.workflow:
        name = new_name(draft.name, draft.title)
        if not name:
            message = _("use at least one letter or digit")
            raise InvalidRequest((Problem("title", "required", message),))
        return save_workflow(actor=user, fields={"name": name, **fields}, comment=draft.comment)
    return save_workflow(
        actor=user,
        fields=fields,
        workflow=workflow_to_change_or_404(user, draft.workflow),
        seen=draft.seen,
        comment=draft.comment,
    )


@login_required
@require_safe
def editor_tools(request: HttpRequest) -> HttpResponse:
    """List the tools that fit `?tool_query=`, for the tool picker."""
    check_may_start(current_user(request))
    context = {
        "tools": offered_tools(search_text(request, "tool_query")),
        "selected_name": request.GET.get("selected_name", "")[:100],
    }
    return fragment(request, "reviews/authoring/_tool_offers.html", context)
