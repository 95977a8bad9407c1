"""Admin of workflows, with the validation of a start."""

from __future__ import annotations

import re
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.options import IS_POPUP_VAR
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy

from workflows.common.json_fields import BoundedJSONField, JSONTextarea
from workflows.executions.access import ADMIN, may_start, roles_of
from workflows.executions.definitions import (
    WorkflowChanged,
    definition_problems,
    lock_unchanged,
    save_workflow,
    seen_mark,
    shown_definition,
    workflow_warnings,
)
from workflows.models import Workflow

from .read_only import block

_FIELDS = (
    "name", "title", "description", "enabled", "plan", "policy", "inputs_schema", "default_inputs"
)  # fmt: skip
_HEAD = re.compile(r"(\w+)[.]?(.*)", re.DOTALL)


class WorkflowForm(forms.ModelForm[Workflow]):
    """A workflow, validated like a start; errors are shown at their fields."""

    plan = BoundedJSONField(
        widget=JSONTextarea({"rows": 28}), help_text="Tasks and their dependencies."
    )
    policy = BoundedJSONField(required=False, help_text="Where people and agents decide.")
    inputs_schema = BoundedJSONField(
        required=False, help_text="JSON Schema of the inputs that a start asks for."
    )
    default_inputs = BoundedJSONField(required=False)
    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    actor: Any = None
    """The user who saves; set for each request."""

    class Meta:
        model = Workflow
        fields = _FIELDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.fields["seen"].initial = seen_mark(self.instance)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for problem in definition_problems(cleaned, actor=self.actor):
            head = _HEAD.fullmatch(problem.path)
            field, rest = (head[1], head[2]) if head else ("", problem.path)
            text = f"{rest}: {problem.message}" if rest else problem.message
            self.add_error(field if field in self.fields else None, text)
        self._check_lost_update(cleaned.get("seen", ""))
        return cleaned

    def _check_lost_update(self, seen: str) -> None:
        """Reject a save that would overwrite a change made since the form was opened."""
        if not self.instance.pk:
            return
        try:
            # The admin's view is one transaction, so the lock is kept until the save.
            lock_unchanged(self.instance.pk, seen)
        except WorkflowChanged as changed:
            (problem,) = changed.problems
            text = (
                f"This workflow has changed: {problem.message}. Your changes are not saved yet. "
                "Compare the versions; save again to save over it."
            )
            self.add_error(None, text)
            data = cast("QueryDict", self.data).copy()
            data[self.add_prefix("seen")] = seen_mark(changed.workflow)
            self.data = data


@admin.register(Workflow)
class WorkflowAdmin(admin.ModelAdmin[Workflow]):
    """Workflows, from which executions are started."""

    empty_text = gettext_lazy(
        "A workflow is a plan that people start again and again: add one in the plan "
        "editor, or plan it from words."
    )
    form = WorkflowForm
    list_display = ("title", "name", "enabled", "created_by", "updated_at")
    list_filter = ("enabled",)
    list_select_related = ("created_by",)
    search_fields = ("name", "title", "description")
    readonly_fields = ("created_by", "created_at", "updated_at", "shown_plan", "shown_inputs")
    fieldsets = (
        (None, {"fields": ("name", "title", "description", "enabled", "seen")}),
        ("Definition", {"fields": ("plan", "policy", "inputs_schema", "default_inputs")}),
        ("History", {"fields": ("created_by", "created_at", "updated_at")}),
    )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> Any:
        """Offer the plan editor to users who may start runs."""
        offers = {"may_start": may_start(request.user)}
        return super().changelist_view(request, {**(extra_context or {}), **offers})

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Open the plan editor; `?json` and pop-ups show the form with JSON fields.

        The editor saves for admins only, so that others with the right to add get the form too.
        """
        is_opened = request.method in ("GET", "HEAD") and not {"json", IS_POPUP_VAR} & {
            *request.GET
        }
        if is_opened and self.has_add_permission(request) and ADMIN in roles_of(request.user):
            return HttpResponseRedirect(reverse("admin:workflows_workflow_editor"))
        return super().add_view(request, form_url, extra_context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """Offer the plan editor to users who may start runs."""
        context["may_start"] = may_start(request.user)
        return super().render_change_form(request, context, *args, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Workflow | None = None) -> Any:
        """Mask secrets for those who may not change the workflow."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return fieldsets
        masked = {"plan": "shown_plan", "default_inputs": "shown_inputs"}
        return [
            (
                title,
                {**options, "fields": [masked.get(str(name), name) for name in options["fields"]]},
            )
            for title, options in fieldsets
        ]

    @admin.display(description="plan")
    def shown_plan(self, workflow: Workflow) -> SafeString:
        return block(shown_definition(workflow)["plan"])

    @admin.display(description="default inputs")
    def shown_inputs(self, workflow: Workflow) -> SafeString:
        return block(shown_definition(workflow)["default_inputs"])

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Pass the user to the form: roles limit the permission sets of a plan."""
        form: Any = super().get_form(request, *args, **kwargs)
        form.actor = request.user
        return form

    def view_on_site(self, obj: Workflow) -> str:
        """The workflow's page on the desk."""
        return reverse("reviews:workflow", args=(obj.pk,))

    def save_model(self, request: HttpRequest, obj: Workflow, form: Any, change: Any) -> None:
        """Save through the use case of the REST API."""
        fields = {name: form.cleaned_data[name] for name in _FIELDS}
        user: Any = request.user
        saved = save_workflow(actor=user, fields=fields, workflow=obj if change else None)
        obj.pk = saved.pk
        obj.refresh_from_db()
        for warning in workflow_warnings(obj):
            self.message_user(request, warning, messages.WARNING)
