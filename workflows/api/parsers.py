"""Parse JSON bodies within limits, and validate query parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.http import UnreadablePostError
from rest_framework import serializers
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from workflows.engine.values.bounded_json import (
    DEFAULT,
    JSON,
    WITH_PLAN,
    BoundedJSONError,
    Limits,
    parse,
)

from .problems import BodyTooLarge


class BoundedJSONParser(BaseParser):
    """Parse `application/json` within `limits`; read at most one byte more than the limit.

    An empty body is an empty object. Raises BoundedJSONError with a path (400), or BodyTooLarge
    (413).
    """

    media_type = "application/json"
    limits: Limits = DEFAULT

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> JSON:
        try:
            data: bytes = stream.read(self.limits.max_bytes + 1)
        except UnreadablePostError as error:
            raise ParseError("The request ended before its body did.") from error
        if len(data) > self.limits.max_bytes:
            raise BodyTooLarge(f"The body is larger than {self.limits.max_bytes} bytes.")
        return parse(data, limits=self.limits) if data.strip() else {}


class PlanJSONParser(BoundedJSONParser):
    """Parse a body that may hold a plan, which has more values than other bodies."""

    limits = WITH_PLAN


class DecisionJSONParser(BoundedJSONParser):
    """Parse a decision: its limit is a quarter of the limit of other bodies."""

    limits = Limits(max_bytes=256 * 1024)


def object_body(data: Any) -> dict[str, Any]:
    """Return the parsed body if it is an object; raise BoundedJSONError otherwise."""
    if isinstance(data, dict):
        # Some clients send an empty form instead of no body; it is a QueryDict.
        return data if data else {}
    raise BoundedJSONError("", f"the body must be an object, not {_kind(data)}")


def validated_body(
    shape: type[serializers.Serializer[Any]], request: Request, *, partial: bool = False
) -> dict[str, Any]:
    """Validate the body with `shape` and return its fields; raise ValidationError otherwise."""
    serializer = shape(data=object_body(request.data), partial=partial)
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def _kind(value: Any) -> str:
    names = {list: "an array", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


#: Parameters of every list; the paginator reads them.
PAGINATION_PARAMETERS = frozenset({"cursor", "page_size", "ordering"})


def query_params(
    request: Request,
    shape: type[serializers.Serializer[Any]] = serializers.Serializer,
    also: frozenset[str] = PAGINATION_PARAMETERS,
) -> dict[str, Any]:
    """Validate the query parameters with `shape`; raise ValidationError with their names.

    Unknown parameters are rejected: a misspelled filter would otherwise return all rows.
    """
    params = {name: value for name, value in request.query_params.items() if name not in also}
    serializer = shape(data=params)
    unknown = sorted(params.keys() - serializer.fields.keys())
    if unknown:
        known = ", ".join(sorted({*serializer.fields, *also}))
        messages = [f"is not a known parameter; there are: {known or 'none'}"]
        raise ValidationError(dict.fromkeys(unknown, messages), code="unknown")
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def reject_query_params(request: Request) -> None:
    """Reject all query parameters."""
    query_params(request, also=frozenset())
