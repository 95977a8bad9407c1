"""Admin of capabilities (mode and state are editable) and grants (read-only)."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Q
from django.db.models.functions import Now
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy

from workflows.engine.plans.task_errors import attempt_reason
from workflows.models import Capability, Grant
from workflows.permissions.capabilities import raised_sets
from workflows.permissions.grants import IN_FORCE, SPENT
from workflows.planning.planner import sync_capabilities

from .filters import StatusFilter
from .read_only import ReadOnly


@admin.register(Capability)
class CapabilityAdmin(admin.ModelAdmin[Capability]):
    """Capabilities: code and permissions are fixed; approval mode and `enabled` are editable."""

    empty_text = gettext_lazy(
        "A capability is code that a run has proven and that plans can use as a tool: save "
        "one from the page of a finished run."
    )
    actions = None
    list_display = ("name", "language", "approval_mode", "enabled", "success_count", "created_at")
    list_filter = ("language", "approval_mode", "enabled")
    search_fields = ("name", "description")
    fields = (
        "name", "description", "approval_mode", "enabled", "language", "code", "input_schema",
        "output_schema", "permission_set", "allows", "success_count", "created_by",
        "from_execution", "from_task", "created_at",
    )  # fmt: skip
    readonly_fields = tuple(
        name for name in fields if name not in ("description", "approval_mode", "enabled")
    )

    def view_on_site(self, obj: Capability) -> str:
        """The capability as a tool, on the desk."""
        return reverse("reviews:tool", args=(f"capability.{obj.name}",))

    @admin.display(description="allows, with its grants")
    def allows(self, capability: Capability) -> str:
        """The permissions in sentences, one per line."""
        reasons = raised_sets([capability])[capability.pk].descriptions()
        return format_html_join("\n", "<p>{}</p>", ((each.text,) for each in reasons))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Capability, form: Any, change: Any) -> None:
        """Update the catalogue, so that plans can or can no longer use the capability."""
        super().save_model(request, obj, form, change)
        sync_capabilities()


class GrantStatusFilter(StatusFilter):
    """Whether tasks can use the grant."""

    choices_by_key = {
        "in_force": (gettext_lazy("In force"), IN_FORCE & ~SPENT),
        "expired": (gettext_lazy("Expired"), Q(revoked_at=None, expires_at__lte=Now())),
        "ended": (gettext_lazy("Ended with its run"), Q(revoked_at=None) & SPENT),
        "revoked": (gettext_lazy("Revoked"), Q(revoked_at__isnull=False)),
    }


class OperationFilter(StatusFilter):
    """By what the permission is for."""

    title = gettext_lazy("operation")
    parameter_name = "operation"
    choices_by_key = {
        "net": (gettext_lazy("Connect to a server"), Q(operation="net")),
        "read": (gettext_lazy("Read files"), Q(operation="read")),
        "write": (gettext_lazy("Write files"), Q(operation="write")),
        "env": (gettext_lazy("Read environment variables"), Q(operation="env")),
        "run": (gettext_lazy("Start programs"), Q(operation="run")),
        "approve": (gettext_lazy("Approve later actions"), Q(operation="approve")),
    }


@admin.register(Grant)
class GrantAdmin(ReadOnly):
    """Grants; a separate page revokes them."""

    empty_text = gettext_lazy(
        "A grant is a permission that a reviewer gave to a task: it appears here after "
        "somebody approves a permission request."
    )
    list_display = (
        "allowed", "scope", "execution", "task_id", "granted_by", "granted_at", "expires_at",
        "uses", "revoked_at", "revoked_by",
    )  # fmt: skip
    list_filter = ("scope", OperationFilter, GrantStatusFilter)
    list_select_related = ("execution",)
    # Not by reason: a search would find the secrets that are masked in it.
    search_fields = ("resource", "task_id", "granted_by")
    fields = (
        "allowed", "scope", "execution", "hold", "task_id", "workflow", "capability", "subject",
        "permissions", "arguments", "granted_by", "reason", "granted_at", "expires_at", "uses",
        "max_uses", "sums", "last_used_at", "revoked_at", "revoked_by",
    )  # fmt: skip
    readonly_fields = ("allowed", "reason")

    def view_on_site(self, obj: Grant) -> str:
        """The review that granted it, on the desk."""
        return reverse("reviews:decision", args=(obj.execution_id, obj.hold_id))

    @admin.display(description="permission", ordering="resource")
    def allowed(self, grant: Grant) -> str:
        """`connect to api.example:443`, as on the desk."""
        return attempt_reason(grant.operation, grant.resource).text

    @admin.display(description="why")
    def reason(self, grant: Grant) -> str:
        return grant.why or "-"
