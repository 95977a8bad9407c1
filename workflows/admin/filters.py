"""Filters of admin lists with titles and choices in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy


class StatusFilter(admin.SimpleListFilter):
    """By a status that follows from other fields, such as the times of a token."""

    title = gettext_lazy("status")
    parameter_name = "status"
    #: The label and the condition of each choice.
    choices_by_key: Mapping[str, tuple[str | Promise, Q]]

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [(key, str(label)) for key, (label, _) in self.choices_by_key.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        choice = self.choices_by_key.get(self.value() or "")
        return queryset.filter(choice[1]) if choice else queryset


class TimeFilter(admin.DateFieldListFilter):
    """By the time at which a row was made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.title = gettext_lazy("time")
