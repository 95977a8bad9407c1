"""Cursor pages: stable while rows come in, and never a count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request


class CursorPages(CursorPagination):
    """`{next, previous, results}`, newest first, 50 rows unless `page_size` asks (at most 200).

    A view whose order differs sets `ordering` on a subclass.  A forged cursor is 404.
    """

    ordering: Any = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def paginate_queryset(
        self, queryset: QuerySet[Any] | Sequence[Any], request: Request, view: Any = None
    ) -> list[Any] | None:
        try:
            return super().paginate_queryset(queryset, request, view)
        except (ValueError, ValidationError, DataError) as error:
            raise NotFound(self.invalid_cursor_message) from error
