"""The one way in for JSON bodies and for query parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.http import UnreadablePostError
from rest_framework import serializers
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.parsers import BaseParser
from rest_framework.request import Request

from workflows.engine.bounded_json import DEFAULT, JSON, BoundedJSONError, Limits, parse

from .problems import BodyTooLarge


class BoundedJSONParser(BaseParser):
    """`application/json` within `limits`; never reads more than one byte beyond them.

    An empty body is an empty object.  What is wrong raises BoundedJSONError with its path (400) or
    BodyTooLarge (413).
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


class DecisionJSONParser(BoundedJSONParser):
    """A decision is a person's answer: a quarter of what a plan may have."""

    limits = Limits(max_bytes=256 * 1024)


def object_body(data: Any) -> dict[str, Any]:
    """A request's parsed body, which has to be an object; raises BoundedJSONError."""
    if isinstance(data, dict):
        # An empty form is what some clients send for no body at all.
        return data if data else {}
    raise BoundedJSONError("", f"the body must be an object, not {_kind(data)}")


def _kind(value: Any) -> str:
    names = {list: "an array", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


#: Parameters that every list has; the pages look at them.
PAGINATION_PARAMETERS = frozenset({"cursor", "page_size", "ordering"})


def query_params(
    request: Request,
    shape: type[serializers.Serializer[Any]] = serializers.Serializer,
    also: frozenset[str] = PAGINATION_PARAMETERS,
) -> dict[str, Any]:
    """The query parameters as `shape` reads them; raises ValidationError with their names.

    A parameter nobody knows is refused: a filter with a typing error would let everything through.
    """
    given = {name: value for name, value in request.query_params.items() if name not in also}
    asked = shape(data=given)
    unknown = sorted(given.keys() - asked.fields.keys())
    if unknown:
        known = ", ".join(sorted({*asked.fields, *also}))
        words = [f"is not a known parameter; there are: {known or 'none'}"]
        raise ValidationError(dict.fromkeys(unknown, words), code="unknown")
    asked.is_valid(raise_exception=True)
    return dict(asked.validated_data)


def reject_query_params(request: Request) -> None:
    """Refuse every query parameter, as an operation that takes none does."""
    query_params(request, also=frozenset())
