"""Unsaved drafts of the plan editor."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class PlanDraft(models.Model):
    """What a user has changed of a workflow, or of a new one, and not saved yet.

    `text` is `EditorDraft.as_json()`.  There is one draft per user and workflow.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    workflow = models.ForeignKey(
        "workflows.Workflow", null=True, on_delete=models.CASCADE, related_name="+"
    )
    text = models.TextField()
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "workflow"], name="plan_draft_once", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} changes {self.workflow_id or 'a new workflow'}"
