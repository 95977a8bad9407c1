"""Read-only admin of commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reviews.components import labels
from workflows.admin.filters import TimeFilter
from workflows.admin.read_only import ReadOnly, link
from workflows.models import CommandLog


class LabelFilter(admin.SimpleListFilter):
    """By a stored code, in the words of the list; codes with one label are one choice."""

    labels: Mapping[str, str]
    field: str

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [(self._codes(label)[0], _(label)) for label in dict.fromkeys(self.labels.values())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        label = self.labels.get(self.value() or "")
        return queryset.filter(**{f"{self.field}__in": self._codes(label)}) if label else queryset

    def _codes(self, label: str) -> list[str]:
        return [code for code, each in self.labels.items() if each == label]


class KindFilter(LabelFilter):
    """By command."""

    title = gettext_lazy("command")
    parameter_name = "kind__exact"
    field = "kind"
    labels = labels.COMMANDS


class OutcomeFilter(LabelFilter):
    """By outcome."""

    title = gettext_lazy("outcome")
    parameter_name = "outcome__exact"
    field = "outcome"
    labels = labels.COMMAND_OUTCOMES


class SourceFilter(LabelFilter):
    """Where the command came from."""

    title = gettext_lazy("source")
    parameter_name = "source__exact"
    field = "source"
    labels = labels.COMMAND_SOURCES


@admin.register(CommandLog)
class CommandLogAdmin(ReadOnly):
    """All commands and their outcomes."""

    empty_text = gettext_lazy(
        "A command changes a run, such as a decision or a replan: it appears here after a "
        "person or a program sends one."
    )
    list_display = ("id", "command", "result", "run", "actor", "place", "version", "created_at")
    list_filter = (OutcomeFilter, KindFilter, SourceFilter, ("created_at", TimeFilter))
    list_select_related = ("execution",)
    search_fields = ("actor", "detail", "=execution__id", "execution__title")
    fields = (
        "run", "command", "actor", "place", "result", "detail", "version", "created_at",
    )  # fmt: skip

    @admin.display(description=gettext_lazy("command"), ordering="kind")
    def command(self, command: CommandLog) -> str:
        return labels.command_text(command.kind)

    @admin.display(description=gettext_lazy("outcome"), ordering="outcome")
    def result(self, command: CommandLog) -> str:
        return labels.command_outcome_text(command.outcome)

    @admin.display(description=gettext_lazy("source"), ordering="source")
    def place(self, command: CommandLog) -> str:
        return labels.source_text(command.source)

    @admin.display(description=gettext_lazy("run"), ordering="execution_id")
    def run(self, command: CommandLog) -> SafeString | str:
        name = "admin:workflows_execution_change"
        return link(str(command.execution), name, command.execution_id)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).order_by("-id")
