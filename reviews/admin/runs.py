"""Runs in the admin: status, plan, timeline, tasks and commands, as on the desk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reviews.admin.plan_editor import AdminEditor
from reviews.components import labels
from reviews.components.views import SeeOther, current_user, fragment, is_htmx
from reviews.decisions.edits import inputs_schema, secret_rules
from reviews.decisions.masking import masked
from reviews.runs.pages import run_context
from reviews.runs.views import ForkView, run_part, submit_posted
from reviews.runs.window import RunQuery
from reviews.templatetags import desk
from workflows.admin.filters import TimeFilter
from workflows.admin.read_only import ReadOnly, WorkflowFilter, link, pretty
from workflows.engine.protocol.status import ExecutionStatus
from workflows.models import CommandLog, Execution, Hold

#: Commands of one run that its page lists, newest first.
_MAX_COMMANDS = 200
FORK_PAGE = "admin:workflows_execution_fork"


class AdminFork(ForkView):
    """The form that forks a run inside the admin; the desk's checks and services."""

    admin_site: Any = None

    def run_url(self, execution_id: int) -> str:
        return reverse("admin:workflows_execution_change", args=(quote(execution_id),))

    def page(self, request: HttpRequest, fork: dict[str, Any], status: int) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": _("Fork run %(number)s") % {"number": fork["number"]},
            "opts": Execution._meta,
            "fork": fork,
        }
        return TemplateResponse(
            request, "admin/workflows/execution/fork.html", context, status=status
        )


class StatusFilter(admin.SimpleListFilter):
    """By status, in the words of the list."""

    title = gettext_lazy("status")
    parameter_name = "status__exact"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [(each.value, desk.look_of(each.value).word) for each in ExecutionStatus]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(status=value) if value else queryset


@admin.register(Execution)
class ExecutionAdmin(ReadOnly):
    """Runs. Commands need the rights that the desk asks for."""

    empty_text = gettext_lazy("A run carries out a plan: start one from a workflow on the desk.")
    execution_path = "pk__in"
    date_hierarchy = "created_at"
    list_display = (
        "name", "shown_status", "workflow_link", "progress", "created_by", "created_at",
        "finished_at",
    )  # fmt: skip
    list_filter = (StatusFilter, ("workflow", WorkflowFilter), ("created_at", TimeFilter))
    linked_lookups = ("created_by__id",)
    list_select_related = ("workflow", "created_by")
    search_fields = ("=id", "title", "workflow__name", "created_by__username")
    ordering = ("-id",)

    @admin.display(description=gettext_lazy("run"), ordering="id")
    def name(self, execution: Execution) -> str:
        return labels.run_title(execution.title, execution.pk)

    @admin.display(description=gettext_lazy("status"), ordering="status")
    def shown_status(self, execution: Execution) -> SafeString:
        # Not `state`: Django would show the model's field of that name.
        return desk.status_chip(execution.status)

    @admin.display(description=gettext_lazy("layers"), ordering="layer")
    def progress(self, execution: Execution) -> str:
        return f"{max(execution.layer + 1, 0)} of {execution.total_layers}"

    @admin.display(description=gettext_lazy("workflow"), ordering="workflow__title")
    def workflow_link(self, execution: Execution) -> SafeString | str:
        if execution.workflow is None:
            return "its own plan"
        name = "admin:workflows_workflow_change"
        return link(execution.workflow.title, name, execution.workflow.pk)

    def get_urls(self) -> list[Any]:
        """Add the page that forks a run after a layer."""
        fork = self.admin_site.admin_view(self.fork_view)
        return [
            path("<int:pk>/fork/<int:layer>/", fork, name="workflows_execution_fork"),
            *super().get_urls(),
        ]

    def fork_view(self, request: HttpRequest, pk: int, layer: int) -> HttpResponse:
        """Show the form of a fork; POST starts it."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        view = AdminFork.as_view(admin_site=self.admin_site)
        return cast("HttpResponse", view(request, pk, layer))

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show a run; POST submits a command to it."""
        execution = cast("Execution | None", self.get_object(request, unquote(object_id)))
        if execution is None or not self.has_view_permission(request, execution):
            return super().change_view(request, object_id, form_url, extra_context)
        url = reverse("admin:workflows_execution_change", args=(quote(execution.pk),))
        if request.method == "POST":
            return SeeOther(f"{url}{submit_posted(request, execution)}")
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        query = RunQuery.of(request.GET)
        if is_htmx(request) and query.part:
            return run_part(request, execution, query)
        run = run_context(
            current_user(request),
            execution,
            fork_page=FORK_PAGE,
            editor_page=AdminEditor.editor_url,
            query=query,
        )
        run |= {"url": url, "command_url": url, "in_admin": True}
        run["holds"] = _in_admin(request, execution, run["holds"])
        if is_htmx(request):
            new_actions = request.GET.get("offers", "") != run["offers"]
            context = {"run": run, "new_actions": new_actions}
            return fragment(request, "reviews/runs/_news.html", context)
        context = {
            **self.admin_site.each_context(request),
            "title": run["title"],
            "original": run["title"],
            "opts": Execution._meta,
            "run": run,
            "execution": execution,
            **_more(request, execution),
        }
        return TemplateResponse(request, "admin/workflows/execution/change_form.html", context)


def _in_admin(
    request: HttpRequest, execution: Execution, holds: Sequence[dict[str, Any]]
) -> tuple[dict[str, Any], ...]:
    """Let the run's open reviews link to the admin, for users who may open them there."""
    if not current_user(request).has_perm("workflows.view_hold"):
        return tuple(holds)
    urls = {
        reverse("reviews:decision", args=(execution.pk, hold_id)): reverse(
            "admin:workflows_hold_change", args=(quote(hold_id),)
        )
        for hold_id in execution.holds.filter(status=Hold.Status.OPEN).values_list("id", flat=True)
    }
    return tuple({**hold, "url": urls.get(hold["url"], hold["url"])} for hold in holds)


def _hold_row(hold: Hold, execution: Execution) -> dict[str, Any]:
    hold.execution = execution
    return {"row": hold, "sentence": labels.row_sentence(hold)}


def _command_row(command: CommandLog) -> dict[str, Any]:
    return {
        "row": command,
        "command": labels.command_text(command.kind),
        "source": labels.source_text(command.source),
        "outcome": labels.command_outcome_text(command.outcome),
    }


def _more(request: HttpRequest, execution: Execution) -> dict[str, Any]:
    """Return what the desk's page does not show; secrets in inputs and context are masked."""
    user = current_user(request)
    inputs = masked(execution.inputs, secret_rules(execution, inputs_schema(execution)))
    context = masked(execution.context, secret_rules(execution, None))
    records = ""
    if user.has_perm("reviews.view_humanreviewrecord"):
        changelist = reverse("admin:reviews_humanreviewrecord_changelist")
        records = f"{changelist}?execution__id__exact={execution.pk}"
    return {
        "desk_url": reverse("reviews:run", args=(execution.pk,)),
        "records_url": records,
        "holds": [_hold_row(hold, execution) for hold in execution.holds.order_by("opened_seq")],
        "may_view_holds": user.has_perm("workflows.view_hold"),
        "checkpoints": execution.checkpoints.order_by("-layer").defer("context"),
        "commands": [
            _command_row(each) for each in execution.command_log.order_by("-id")[:_MAX_COMMANDS]
        ],
        "data": (
            (gettext_lazy("Inputs"), pretty(inputs.value)),
            (gettext_lazy("Context"), pretty(context.value)),
            (gettext_lazy("Review policy"), pretty(execution.policy)),
        ),
    }
