"""Read requests of SCIM: filters, PATCH operations, and values as Okta and Entra write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rest_framework.request import Request

from workflows.engine.bounded_json import BoundedJSONError, parse

from .errors import ScimError, invalid

PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
MAX_RESULTS = 200
_FILTER = re.compile(r'\s*([\w.:]+)\s+eq\s+("(?:[^"\\]|\\.)*"|true|false)\s*', re.IGNORECASE)
#: `members[value eq "7"]`, `emails[type eq "work"].value`
_SELECTED = re.compile(
    r'(\w+)\[\s*(\w+)\s+eq\s+("(?:[^"\\]|\\.)*")\s*\](?:\.(\w+))?', re.IGNORECASE
)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that was asked for; `start` counts from 1."""

    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a PATCH: `add`, `replace` or `remove` of an attribute, in lower case.

    `selected` is the value of a filter in the path, such as the member to remove.
    """

    op: str
    attribute: str
    value: Any
    selected: str = ""


def parse_filter(request: Request, known: frozenset[str]) -> list[tuple[str, str]]:
    """Return the (attribute, value) pairs of `filter`, joined by "and"; [] without one.

    Raises ScimError for other operators and for attributes that are not `known` (lower case).
    """
    text = request.query_params.get("filter", "")
    if not text.strip():
        return []
    pairs, position = [], 0
    while True:
        match = _FILTER.match(text, position)
        if match is None or match[1].lower() not in known:
            raise ScimError(
                f"Filters compare one of {', '.join(sorted(known))} by eq.", kind="invalidFilter"
            )
        pairs.append((match[1].lower(), _compared(match[2], "invalidFilter")))
        position = match.end()
        if position == len(text):
            return pairs
        if text[position : position + 4].lower() != "and ":
            raise ScimError("Filters are joined by and.", kind="invalidFilter")
        position += 4


def parse_page(request: Request) -> Page:
    """Return startIndex and count; raises ScimError for values that are not numbers."""
    numbers = {}
    for name, default in (("startIndex", 1), ("count", MAX_RESULTS)):
        text = request.query_params.get(name) or str(default)
        if not re.fullmatch(r"-?[0-9]{1,9}", text):
            raise invalid(f"{name} must be a whole number.")
        numbers[name] = int(text)
    return Page(max(1, numbers["startIndex"]), min(MAX_RESULTS, max(0, numbers["count"])))


def parse_operations(body: Mapping[str, Any]) -> Iterator[Operation]:
    """Yield the operations of a PATCH, one for each attribute; raises ScimError."""
    operations = body.get("Operations")
    if not isinstance(operations, list) or not operations:
        raise ScimError("A PATCH has a list of Operations.", kind="invalidSyntax")
    for each in operations:
        op = str(each.get("op", "")).lower() if isinstance(each, Mapping) else ""
        if op not in ("add", "replace", "remove"):
            raise ScimError("An operation is add, replace or remove.", kind="invalidSyntax")
        path, value = each.get("path"), each.get("value")
        if path and not isinstance(path, str):
            raise ScimError("A path is text.", kind="invalidPath")
        if path:
            yield _with_path(op, path, value)
        elif isinstance(value, Mapping):
            for name, part in value.items():
                yield _with_path(op, str(name), part)
        else:
            raise ScimError("An operation without a path has an object.", kind="noTarget")


def _with_path(op: str, path: str, value: Any) -> Operation:
    path = path.rpartition("urn:ietf:params:scim:schemas:core:2.0:")[2]
    path = path.removeprefix("User:").removeprefix("Group:")
    match = _SELECTED.fullmatch(path)
    if match is None:
        return Operation(op, path.lower(), value)
    attribute = ".".join(filter(None, (match[1], match[4]))).lower()
    if attribute == "members" and match[2].lower() != "value":
        raise ScimError("A path selects members by value.", kind="invalidPath")
    return Operation(op, attribute, value, _compared(match[3], "invalidPath"))


def _compared(written: str, kind: str) -> str:
    """Return the value of a comparison as text; raises ScimError with this `kind`."""
    try:
        return str(parse(written if written[0] == '"' else written.lower()))
    except BoundedJSONError as error:
        raise ScimError(f"{written[:100]} {error.message}.", kind=kind) from None


def boolean(value: Any) -> bool:
    """Return a boolean; Entra writes it as text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise invalid("active must be true or false.")


def text(value: Any, name: str, limit: int) -> str:
    """Return text within `limit`; null is no text."""
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > limit or "\0" in value:
        raise invalid(f"{name} must be text of at most {limit} characters.")
    return value.strip()


def first_email(value: Any) -> str:
    """Return the primary address of a list, else the first; "" for an empty list."""
    if isinstance(value, str):
        return text(value, "emails", 254)
    if value is not None and not isinstance(value, list):
        raise invalid("emails must be a list.")
    addresses = list(value or ())
    if not all(isinstance(each, Mapping) for each in addresses):
        raise invalid("emails must be a list of objects.")
    primary = [each for each in addresses if each.get("primary") in (True, "true", "True")]
    chosen: Mapping[str, Any] = next(iter(primary or addresses), {})
    return text(chosen.get("value"), "emails", 254)


def member_ids(value: Any) -> set[int]:
    """Return the ids of members: objects with `value`; raises ScimError for other values."""
    members = value if isinstance(value, list) else [value]
    found = set()
    for each in members:
        number = str(each.get("value", "")) if isinstance(each, Mapping) else ""
        if not re.fullmatch(r"[0-9]{1,18}", number):
            raise invalid("A member is an object whose value is the id of a user.")
        found.add(int(number))
    return found
