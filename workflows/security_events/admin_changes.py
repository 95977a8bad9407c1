"""What the admin logs is recorded as security events too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import ADDITION, CHANGE, DELETION
from django.db.models import Model
from django.http import HttpRequest

from .services import record_change


class RecordsChanges(admin.ModelAdmin[Any]):
    """A base class of every ModelAdmin of the site.

    An admin whose services log the change themselves returns no entry here, and the services record
    the change.
    """

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        entry = super().log_addition(request, obj, message)
        self._record(request, entry, [obj], ADDITION, message)
        return entry

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        entry = super().log_change(request, obj, message)
        self._record(request, entry, [obj], CHANGE, message)
        return entry

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        entries = super().log_deletions(request, queryset)
        self._record(request, entries, queryset, DELETION, "")
        return entries

    def _record(
        self, request: HttpRequest, entry: Any, rows: Iterable[Model], flag: int, message: Any
    ) -> None:
        if entry is None:
            return
        user: Any = request.user
        for row in rows:
            record_change(actor=user, row=row, flag=flag, message=message)
