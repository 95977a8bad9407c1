"""Read-only admin of commands."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from workflows.models import CommandLog

from .read_only import ReadOnly, link


@admin.register(CommandLog)
class CommandLogAdmin(ReadOnly):
    """All commands and their outcomes."""

    list_display = (
        "id", "kind", "outcome", "run", "actor", "source", "version", "created_at"
    )  # fmt: skip
    list_filter = ("outcome", "kind", "source", "created_at")
    list_select_related = ("execution",)
    search_fields = ("actor", "detail", "=execution__id", "execution__title")

    @admin.display(description="run", ordering="execution_id")
    def run(self, command: CommandLog) -> SafeString | str:
        name = "admin:workflows_execution_change"
        return link(str(command.execution), name, command.execution_id)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).order_by("-id")
