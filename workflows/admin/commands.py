"""Read-only admin of commands."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from workflows.models import CommandLog

from .read_only import ReadOnly


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
