"""Admin of approval policies."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import Http404, HttpRequest
from django.utils.translation import gettext_lazy

from workflows.approvals.policy_services import group_problems, lock_policy
from workflows.models import ApprovalPolicy


class ApprovalPolicyForm(forms.ModelForm[ApprovalPolicy]):
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
class ApprovalPolicyAdmin(admin.ModelAdmin[ApprovalPolicy]):
    """The reviews of actions by name."""

    empty_text = gettext_lazy(
        "An approval policy says who reviews an outside agent's actions by name, such as "
        "payments.*: add one to require more than its agent asks for."
    )
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
