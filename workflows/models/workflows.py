"""Workflow definitions."""

from __future__ import annotations

from django.conf import settings
from django.db import models


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
