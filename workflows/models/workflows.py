"""Workflow definitions."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class Workflow(models.Model):
    """A named definition: a plan, its policy and the schema of its inputs."""

    name = models.SlugField(max_length=100, unique=True)
    title = models.CharField(max_length=200)
    description = models.TextField(blank=True, default="")
    plan = models.JSONField()
    policy = models.JSONField(blank=True, default=dict)
    inputs_schema = models.JSONField(blank=True, default=dict)
    default_inputs = models.JSONField(blank=True, default=dict)
    enabled = models.BooleanField(default=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("title",)

    def __str__(self) -> str:
        return self.title


class WorkflowVersion(models.Model):
    """A saved definition of a workflow.  Rows are never changed.

    `definition` has the fields `title`, `description`, `plan`, `policy`, `inputs_schema` and
    `default_inputs` of the workflow.  `restored` is the number of the older version that this one
    repeats.
    """

    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE, related_name="versions")
    number = models.IntegerField()
    definition = models.JSONField()
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    author_name = models.CharField(max_length=150, blank=True, default="")
    comment = models.TextField(blank=True, default="")
    restored = models.IntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workflow", "number"], name="version_number_once"),
        ]
        ordering = ("-number",)

    def __str__(self) -> str:
        return f"{self.workflow} v{self.number}"
