"""Admin of approval policies, which are editable, and of approvals, which are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.http import Http404, HttpRequest
from django.utils.safestring import SafeString

from workflows.approvals.policy_services import group_problems, lock_policy
from workflows.common.redaction import mask_secrets
from workflows.models import Approval, ApprovalPolicy

from .read_only import ReadOnly, link

if TYPE_CHECKING:
    Base = admin.ModelAdmin[ApprovalPolicy]
    BaseForm = forms.ModelForm[ApprovalPolicy]
else:
    Base = admin.ModelAdmin
    BaseForm = forms.ModelForm


class ApprovalPolicyForm(BaseForm):
    """A policy; its groups exist and may decide."""

    class Meta:
        model = ApprovalPolicy
        fields = (
            "pattern", "groups", "quorum", "timeout_seconds", "on_timeout", "minimum_risk",
            "skip_when", "sample", "rules", "max_change_requests", "instructions", "calendar",
            "allows_standing_answers", "standing_max_hours", "standing_high_risk", "enabled",
        )  # fmt: skip
        widgets = {
            "skip_when": forms.Textarea(attrs={"rows": 2}),
            "rules": forms.Textarea(attrs={"rows": 4, "class": "vLargeTextField"}),
        }

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        if "groups" not in values or "quorum" not in values:
            return values
        try:
            problems = group_problems(values["groups"], values["quorum"])
        except ValueError:
            # The model's own validation names the invalid field.
            return values
        for problem in problems:
            self.add_error("groups", problem.message)
        return values


@admin.register(ApprovalPolicy)
class ApprovalPolicyAdmin(Base):
    """The reviews of actions by name."""

    form = ApprovalPolicyForm
    list_display = (
        "pattern", "groups", "quorum", "minimum_risk", "timeout_seconds", "on_timeout", "enabled",
    )  # fmt: skip
    list_filter = ("enabled", "minimum_risk")
    search_fields = ("pattern",)

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> ApprovalPolicy | None:
        """Lock the policy that a form changes, because its rules have a version."""
        found = super().get_object(request, object_id, from_field)
        if found is not None and request.method == "POST":
            try:
                lock_policy(found)
            except Http404:
                return None
        return found

    def save_model(self, request: HttpRequest, obj: ApprovalPolicy, form: Any, change: Any) -> None:
        """Give changed rules the next version."""
        if "rules" in form.changed_data:
            obj.rules_version += 1
        super().save_model(request, obj, form, change)


@admin.register(Approval)
class ApprovalAdmin(ReadOnly):
    """Actions that outside agents asked approval for; people decide in the reviews."""

    list_display = (
        "action", "shown_title", "shown_agent", "shown_session", "owner", "risk", "phase",
        "created_at",
    )  # fmt: skip
    list_filter = ("phase", "risk", "result_mismatch")
    list_select_related = ("owner",)
    search_fields = ("action", "title", "agent", "session")
    fields = (
        "action", "shown_title", "run", "phase", "risk", "policy", "owner", "shown_agent",
        "shown_session", "shown_url", "shown_context", "callback_url", "arguments_digest",
        "result_ok", "shown_error", "result_mismatch", "result_at", "created_at",
    )  # fmt: skip

    @admin.display(description="run")
    def run(self, row: Approval) -> SafeString | str:
        return link(str(row.execution_id), "reviews:run", row.execution_id)

    @admin.display(description="title", ordering="title")
    def shown_title(self, row: Approval) -> str:
        return mask_secrets(row.title)

    @admin.display(description="agent", ordering="agent")
    def shown_agent(self, row: Approval) -> str:
        return mask_secrets(row.agent)

    @admin.display(description="session", ordering="session")
    def shown_session(self, row: Approval) -> str:
        return mask_secrets(row.session)

    @admin.display(description="URL")
    def shown_url(self, row: Approval) -> str:
        return mask_secrets(row.url)

    @admin.display(description="context")
    def shown_context(self, row: Approval) -> str:
        return mask_secrets(row.context)

    @admin.display(description="error")
    def shown_error(self, row: Approval) -> str:
        return mask_secrets(row.result_error)
