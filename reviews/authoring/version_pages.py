"""Versions of a workflow: the list, the difference between two, restoring, import and export."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.http import require_safe

from reviews.components.json_diffs import diff
from reviews.components.plan_diff import PlanDiff, diff_context
from reviews.components.views import SeeOther, current_user, page, warn
from reviews.decisions.masking import Masked
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.dag import Plan
from workflows.engine.plans.diff import change_between
from workflows.engine.plans.validation import PlanInvalid, parse_plan
from workflows.executions.definitions import restore_version, workflow_warnings
from workflows.executions.validation import InvalidRequest, check_plan
from workflows.models import Workflow, WorkflowVersion

from .definition_view import listed_secrets, shown_definition, shown_fields
from .policy_labels import labelled
from .rights import check_may_save, may_save, workflow_or_404
from .workflow_files import exported, written

_LISTED = 200


class VersionsView(LoginRequiredMixin, View):
    """List the versions of a workflow, and show how `?to=` differs from `?from=`.

    The class attributes name this page, that of the workflow, and the address that restores.
    """

    http_method_names = ["get", "head"]
    versions_url = "reviews:workflow_versions"
    workflow_url = "reviews:workflow"
    restore_url = "reviews:workflow_restore"

    def get(self, request: HttpRequest, workflow_id: int) -> HttpResponse:
        workflow = workflow_or_404(current_user(request), workflow_id)
        return self.show(request, workflow)

    def show(self, request: HttpRequest, workflow: Workflow, problems: Any = ()) -> HttpResponse:
        """Render the versions, with the problems of a version that cannot be restored."""
        v = {
            **_context(request, workflow, self.restore_url),
            "url": reverse(self.workflow_url, args=(workflow.pk,)),
            "versions_url": reverse(self.versions_url, args=(workflow.pk,)),
        }
        status = 422 if problems else 200
        return self.page(request, {"v": v, "problems": problems}, status)

    def page(self, request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
        """Render the whole page."""
        template = "reviews/authoring/versions.html"
        return page(request, template, context, section="workflows", status=status)


class RestoreView(VersionsView):
    """Save an older version as the newest one."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, workflow_id: int, number: int) -> HttpResponse:
        user = current_user(request)
        workflow = workflow_or_404(user, workflow_id)
        check_may_save(user)
        try:
            saved = restore_version(actor=user, workflow=workflow, number=number)
        except WorkflowVersion.DoesNotExist:
            raise Http404 from None
        except InvalidRequest as invalid:
            return self.show(request, workflow, invalid.problems)
        warn(request, workflow_warnings(saved))
        return SeeOther(reverse(self.versions_url, args=(workflow.pk,)))


@login_required
@require_safe
def export(request: HttpRequest, workflow_id: int, kind: str) -> HttpResponse:
    """Send the definition of a workflow as a file; secrets are masked for all but admins."""
    user = current_user(request)
    workflow = workflow_or_404(user, workflow_id)
    definition = exported(workflow)
    if not may_save(user):
        definition |= shown_definition(workflow)
    name = f'attachment; filename="{workflow.name}.{kind}"'
    headers = {"Content-Disposition": name, "Cache-Control": "no-store"}
    content_type = f"application/{kind}; charset=utf-8"
    return HttpResponse(written(definition, kind), content_type=content_type, headers=headers)


# --- contexts -------------------------------------------------------------------------------------


def _context(request: HttpRequest, workflow: Workflow, restore_url: str) -> dict[str, Any]:
    rows = list(WorkflowVersion.objects.filter(workflow=workflow)[:_LISTED])
    numbers = [row.number for row in rows]
    newest = numbers[0] if numbers else 0
    to = parse_natural_number(request.GET.get("to", "")) or newest
    start = parse_natural_number(request.GET.get("from", "")) or to - 1
    by_number = {row.number: row for row in rows}
    old, new = by_number.get(start), by_number.get(to)
    return {
        "title": workflow.title,
        "id": workflow.pk,
        "rows": tuple(_row(row, workflow, newest, restore_url) for row in rows),
        "may_restore": may_save(current_user(request)),
        "from": start,
        "to": to,
        "numbers": numbers,
        "difference": definition_difference(old.definition, new.definition)
        if old and new and old != new
        else None,
    }


def _row(row: WorkflowVersion, workflow: Workflow, newest: int, restore_url: str) -> dict[str, Any]:
    return {
        "number": row.number,
        "author": row.author_name or _("the system"),
        "at": row.created_at,
        "comment": row.comment,
        "restored": row.restored,
        "is_newest": row.number == newest,
        "restore_url": reverse(restore_url, args=(workflow.pk, row.number)),
    }


def definition_difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the changed plan as a diagram, and each other changed value.

    A value is masked in both definitions if the policy of either lists it.
    """
    paths = tuple(dict.fromkeys((*listed_secrets(old), *listed_secrets(new))))
    left, before = shown_fields(old, paths)
    right, after = shown_fields(new, paths, after=before)
    p = _plan_difference(old, new, after)
    if p:
        left, right = ({**side, "plan": None} for side in (left, right))
    return {"changes": labelled(diff(left, right)), "p": p}


def _plan_difference(
    old: dict[str, Any], new: dict[str, Any], view: Masked
) -> dict[str, Any] | None:
    """Return `p` of the plan diff's template, masked by the rules and with the marks of `view`.

    Returns None for a plan that is not valid any more.
    """
    if old["plan"] == new["plan"]:
        return None
    try:
        before, after = _parsed(old["plan"]), _parsed(new["plan"])
    except PlanInvalid:
        return None
    return diff_context(
        PlanDiff(
            view=view,
            before=before,
            old_layers=before.layers(),
            layers=after.layers(),
            change=change_between(before, after),
        )
    )


def _parsed(plan: Any) -> Plan:
    """Return a plan with the permission sets of its tools, where the catalogue has them all."""
    try:
        return check_plan(plan)
    except InvalidRequest:
        return parse_plan(plan)
