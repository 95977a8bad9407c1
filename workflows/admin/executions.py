"""Read-only admin of executions, holds and commands."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from workflows.common.number_parsing import parse_natural_number
from workflows.engine.events import public_payload
from workflows.executions.selectors import tasks_of
from workflows.models import CommandLog, Execution, ExecutionEvent, Hold

from .read_only import ReadOnly, block, link, pretty, url

#: Events per page of the timeline.
_EVENTS = 200


@admin.register(Execution)
class ExecutionAdmin(ReadOnly):
    """Runs, with tasks, holds, checkpoints and timeline on the detail page."""

    execution_path = "pk__in"
    change_form_template = "admin/workflows/execution/change_form.html"
    list_display = (
        "title", "id", "status", "version", "workflow", "progress", "created_by", "created_at",
        "updated_at",
    )  # fmt: skip
    list_filter = ("status", "workflow", "created_at")
    list_select_related = ("workflow", "created_by")
    search_fields = ("=id", "title", "workflow__name", "created_by__username")
    ordering = ("-id",)
    fieldsets = (
        (None, {"fields": ("title", "status", "version", "workflow_link", "parent_link", "progress",
                           "revision", "created_by", "created_at", "updated_at", "finished_at",
                           "error")}),
        ("Data", {"fields": ("inputs_json", "context_json", "policy_json")}),
        ("Worker", {"classes": ("collapse",),
                             "fields": ("lease_owner", "lease_until", "fence", "wake_at",
                                        "dispatched_at", "queued_commands", "abort_requested")}),
    )  # fmt: skip

    class Media:
        css = {"all": ("workflows/admin.css",)}

    @admin.display(description="layers", ordering="layer")
    def progress(self, execution: Execution) -> str:
        return f"{max(execution.layer + 1, 0)} of {execution.total_layers}"

    @admin.display(description="workflow")
    def workflow_link(self, execution: Execution) -> SafeString | str:
        if execution.workflow is None:
            return "its own plan"
        name = "admin:workflows_workflow_change"
        return link(execution.workflow.title, name, execution.workflow.pk)

    @admin.display(description="forked from")
    def parent_link(self, execution: Execution) -> SafeString | str:
        parent = execution.parent_id
        if parent is None:
            return "-"
        return link(f"#{parent}", "admin:workflows_execution_change", parent)

    @admin.display(description="inputs")
    def inputs_json(self, execution: Execution) -> SafeString:
        return block(execution.inputs)

    @admin.display(description="context")
    def context_json(self, execution: Execution) -> SafeString:
        return block(execution.context)

    @admin.display(description="policy")
    def policy_json(self, execution: Execution) -> SafeString:
        return block(execution.policy)

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        execution = self.get_object(request, object_id)
        more = _page_context(execution, request) if isinstance(execution, Execution) else {}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **more})


def _page_context(execution: Execution, request: HttpRequest) -> dict[str, Any]:
    """Return the template context besides the row itself."""
    return {
        "tasks": [_task(task) for task in tasks_of(execution)],
        "holds": execution.holds.order_by("opened_seq"),
        "checkpoints": execution.checkpoints.order_by("-layer"),
        "commands": execution.command_log.order_by("-id")[:_EVENTS],
        "desk_url": url("reviews:run", execution.pk),
        "records_url": _records_url(execution),
        **_timeline(execution, request.GET.get("before", "")),
    }


def _records_url(execution: Execution) -> str:
    """Return the URL of the decisions about an execution; "" without the app `reviews`."""
    records = url("admin:reviews_humanreviewrecord_changelist")
    if records:
        return f"{records}?execution__id__exact={execution.pk}"
    history = url("reviews:history")
    return f"{history}?execution={execution.pk}" if history else ""


def _task(task: Any) -> dict[str, Any]:
    return {
        "view": task,
        "attempts": len(task.attempts),
        "inputs": pretty(task.inputs),
        "output": pretty(task.output),
        "original": pretty(task.original_output) if task.is_edited or task.is_rejected else "",
    }


def _timeline(execution: Execution, before: str) -> dict[str, Any]:
    """Return the newest events before `before`, in ascending order."""
    rows = ExecutionEvent.objects.filter(execution=execution)
    last = parse_natural_number(before)
    if last is not None:
        rows = rows.filter(seq__lt=last)
    events = list(rows.order_by("-seq")[:_EVENTS])[::-1]
    return {
        "events": [
            {"row": event, "payload": pretty(public_payload(event.payload))} for event in events
        ],
        "earlier": events[0].seq if events and events[0].seq > 1 else None,
    }


@admin.register(Hold)
class HoldAdmin(ReadOnly):
    """Open and decided holds."""

    list_display = (
        "id", "execution_link", "task_id", "phase", "reason", "status", "decided_by", "opened_at",
        "expires_at",
    )  # fmt: skip
    list_filter = ("status", "reason", "phase", "decider", "critical", "opened_at")
    list_select_related = ("execution",)
    search_fields = ("=id", "task_id", "target", "execution__title", "decided_by")
    ordering = ("-opened_at", "-id")
    fields = (
        "id", "execution_link", "task_id", "target", "reason", "phase", "decider", "status",
        "layer", "why", "instructions", "critical", "groups", "quorum", "approvals", "on_reject",
        "on_timeout", "payload_json", "opened_at", "expires_at", "reminds_at", "escalation",
        "escalated", "escalates_at", "decided_at", "decided_by", "decision",
    )  # fmt: skip

    class Media:
        css = {"all": ("workflows/admin.css",)}

    @admin.display(description="execution", ordering="execution")
    def execution_link(self, hold: Hold) -> SafeString | str:
        return link(str(hold.execution), "admin:workflows_execution_change", hold.execution_id)

    @admin.display(description="payload")
    def payload_json(self, hold: Hold) -> SafeString:
        return block(hold.payload)


@admin.register(CommandLog)
class CommandLogAdmin(ReadOnly):
    """All commands and their outcomes."""

    list_display = (
        "id", "kind", "outcome", "execution", "actor", "source", "version", "created_at"
    )  # fmt: skip
    list_filter = ("outcome", "kind", "source", "created_at")
    list_select_related = ("execution",)
    search_fields = ("actor", "detail", "=execution__id", "execution__title")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).order_by("-id")
