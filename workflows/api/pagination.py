"""Keyset pagination: stable while rows are added, and without a count."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.exceptions import ValidationError as Invalid
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

#: Value of `ordering` → columns. The first one is the default.
Orderings = Mapping[str, tuple[str, ...]]


class MergedQuerysets:
    """Querysets that are read as one sorted list, each by its own index.

    It supports the operations of a cursor page: an order with one direction, a filter, a slice.
    """

    def __init__(self, *parts: QuerySet[Any], order: tuple[str, ...] = ()) -> None:
        self._parts = parts
        self._order = order

    def order_by(self, *names: str) -> MergedQuerysets:
        return MergedQuerysets(*(part.order_by(*names) for part in self._parts), order=names)

    def filter(self, **conditions: Any) -> MergedQuerysets:
        return MergedQuerysets(
            *(part.filter(**conditions) for part in self._parts), order=self._order
        )

    def __getitem__(self, span: slice) -> list[Any]:
        descending = self._order[0].startswith("-")
        key = attrgetter(*(name.lstrip("-") for name in self._order))
        rows = heapq.merge(
            *(part[: span.stop] for part in self._parts), key=key, reverse=descending
        )
        return list(rows)[span.start : span.stop]


class CursorPages(CursorPagination):
    """Pages `{next, previous, results}` of `page_size` rows (1 to 200, default 50).

    The view's `orderings` are the possible orders; without it the order is newest first. An invalid
    order, page size or cursor is a 422 that names the parameter.
    """

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def paginate_queryset(
        self,
        queryset: QuerySet[Any] | Sequence[Any] | MergedQuerysets,
        request: Request,
        view: Any = None,
    ) -> list[Any] | None:
        try:
            return super().paginate_queryset(cast("QuerySet[Any]", queryset), request, view)
        except (NotFound, ValueError, ValidationError, DataError) as error:
            message = "is not a cursor of this list: follow `next` and `previous` as they are"
            raise Invalid({"cursor": [message]}, code="malformed") from error

    def get_page_size(self, request: Request) -> int | None:
        size = request.query_params.get("page_size", str(self.page_size))
        if not (size.isascii() and size.isdigit() and 1 <= int(size[:6]) <= self.max_page_size):
            message = f"must be a whole number from 1 to {self.max_page_size}"
            raise Invalid({"page_size": [message]}, code="invalid")
        return int(size)

    def get_ordering(self, request: Request, queryset: QuerySet[Any], view: Any) -> tuple[str, ...]:
        choice = orderings_of(view)
        ordering = request.query_params.get("ordering") or next(iter(choice))
        if ordering not in choice:
            message = f"must be one of {', '.join(choice)}"
            raise Invalid({"ordering": [message]}, code="invalid_choice")
        return choice[ordering]

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """Return the parameters for the OpenAPI document."""
        choice = list(orderings_of(view))
        size = {"type": "integer", "minimum": 1, "maximum": self.max_page_size}
        return [
            _parameter("cursor", "Follow `next` and `previous`.", {"type": "string"}),
            _parameter("page_size", "Rows of a page.", {**size, "default": self.page_size}),
            _parameter(
                "ordering",
                "`-` is descending.",
                {"type": "string", "enum": choice, "default": choice[0]},
            ),
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a page for OpenAPI 3.1; REST framework generates 3.0."""
        link = {"type": ["string", "null"], "format": "uri"}
        return {
            "type": "object",
            "required": ["next", "previous", "results"],
            "properties": {"next": link, "previous": dict(link), "results": schema},
        }


def orderings_of(view: Any) -> Orderings:
    """Return the possible orders of a list view."""
    orderings: Orderings = getattr(view, "orderings", None) or {"-id": ("-id",)}
    return orderings


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "required": False,
        "in": "query",
        "description": description,
        "schema": schema,
    }
