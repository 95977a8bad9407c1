"""Endpoints of SCIM below `/scim/v2/`; they take tokens with the scope `scim` only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from rest_framework.permissions import BasePermission
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from workflows.api.authentication import TokenAuthentication
from workflows.api.parsers import BoundedJSONParser, object_body
from workflows.api.permission_classes import caller, token_of
from workflows.common.number_parsing import parse_natural_number
from workflows.executions.access import ADMIN, roles_of
from workflows.permissions.tokens import SCIM

from . import discovery, groups, users
from .errors import handle
from .requests import parse_filter, parse_operations, parse_page

if TYPE_CHECKING:
    from django.contrib.auth.models import Group, User

T = TypeVar("T")
LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"


class ScimParser(BoundedJSONParser):
    """The same limits as other bodies."""

    media_type = "application/scim+json"


class ScimRenderer(JSONRenderer):
    """JSON under the name of RFC 7644."""

    media_type = "application/scim+json"
    charset = None


class MayProvision(BasePermission):
    """The token has the scope `scim`, and its owner is still an admin."""

    message = "This needs a token with the scope 'scim' of an admin."

    def has_permission(self, request: Request, view: Any) -> bool:
        token = token_of(request)
        return token is not None and SCIM in token.scopes and ADMIN in roles_of(request.user)


class ScimView(APIView):
    """What all endpoints share."""

    schema = None
    authentication_classes = (TokenAuthentication,)
    permission_classes = (MayProvision,)
    parser_classes = (ScimParser, BoundedJSONParser)
    renderer_classes = (ScimRenderer, JSONRenderer)

    def get_exception_handler(self) -> Callable[[Exception, dict[str, Any]], Response | None]:
        return handle

    def finalize_response(
        self, request: Request, response: Any, *args: Any, **kwargs: Any
    ) -> Response:
        """Keep accounts out of caches."""
        final = super().finalize_response(request, response, *args, **kwargs)
        final["Cache-Control"] = "no-store"
        return final


def page(
    request: Request,
    rows: QuerySet[Any],
    filters: Mapping[str, str],
    shown: Callable[[Any], dict[str, Any]],
) -> Response:
    """Return the part of the list that the request asks for."""
    for attribute, value in parse_filter(request, frozenset(filters)):
        lookup = filters[attribute]
        is_id = lookup.endswith("pk")
        fits = not is_id or parse_natural_number(value) is not None
        rows = rows.filter(**{lookup: value}) if fits else rows.none()
    wanted = parse_page(request)
    found = list(rows[wanted.start - 1 : wanted.start - 1 + wanted.count])
    return Response(
        {
            "schemas": [LIST],
            "totalResults": rows.count(),
            "startIndex": wanted.start,
            "itemsPerPage": len(found),
            "Resources": [shown(each) for each in found],
        }
    )


def found(ask: Callable[[], T]) -> T:
    """Return the row; raise Http404 where there is none."""
    try:
        return ask()
    except ObjectDoesNotExist:
        raise Http404 from None


def body_of(request: Request) -> dict[str, Any]:
    """Return the body, which has to be an object."""
    return object_body(request.data)


# --- users ----------------------------------------------------------------------------------------


def show_user(request: Request, person: User) -> dict[str, Any]:
    path = reverse("scim-user", args=(person.pk,))
    return users.resource(person, request.build_absolute_uri(path))


class UsersView(ScimView):
    """List accounts, and create one."""

    def get(self, request: Request) -> Response:
        return page(request, users.accounts(), users.FILTERS, lambda each: show_user(request, each))

    def post(self, request: Request) -> Response:
        person = users.create(caller(request), users.from_body(body_of(request)))
        shown = show_user(request, users.accounts().get(pk=person.pk))
        return Response(shown, status=201, headers={"Location": shown["meta"]["location"]})


class UserView(ScimView):
    """Read, change and deactivate an account."""

    def get(self, request: Request, user_id: int) -> Response:
        return Response(show_user(request, found(lambda: users.accounts().get(pk=user_id))))

    def put(self, request: Request, user_id: int) -> Response:
        return self._change(request, user_id, users.from_body(body_of(request)))

    def patch(self, request: Request, user_id: int) -> Response:
        operations = list(parse_operations(body_of(request)))
        return self._change(request, user_id, users.from_operations(operations))

    def delete(self, request: Request, user_id: int) -> Response:
        found(lambda: users.delete(caller(request), user_id))
        return Response(status=204)

    def _change(self, request: Request, user_id: int, values: users.Values) -> Response:
        found(lambda: users.change(caller(request), user_id, values))
        return self.get(request, user_id)


# --- groups ---------------------------------------------------------------------------------------


def show_group(request: Request, group: Group) -> dict[str, Any]:
    path = reverse("scim-group", args=(group.pk,))
    excluded = request.query_params.get("excludedAttributes", "").lower().split(",")
    members = "members" not in (each.strip() for each in excluded)
    return groups.resource(group, request.build_absolute_uri(path), members=members)


class GroupsView(ScimView):
    """List the groups that the provider manages, and add one."""

    def get(self, request: Request) -> Response:
        return page(
            request, groups.groups(), groups.FILTERS, lambda each: show_group(request, each)
        )

    def post(self, request: Request) -> Response:
        shown = show_group(request, groups.create(caller(request), body_of(request)))
        return Response(shown, status=201, headers={"Location": shown["meta"]["location"]})


class GroupView(ScimView):
    """Read a group, set its members, and give it up."""

    def get(self, request: Request, group_id: int) -> Response:
        return Response(show_group(request, found(lambda: groups.groups().get(pk=group_id))))

    def put(self, request: Request, group_id: int) -> Response:
        body = body_of(request)
        group = found(lambda: groups.replace(caller(request), group_id, body))
        return Response(show_group(request, group))

    def patch(self, request: Request, group_id: int) -> Response:
        operations = list(parse_operations(body_of(request)))
        group = found(lambda: groups.patch(caller(request), group_id, operations))
        return Response(show_group(request, group))

    def delete(self, request: Request, group_id: int) -> Response:
        found(lambda: groups.delete(caller(request), group_id))
        return Response(status=204)


# --- discovery ------------------------------------------------------------------------------------


class DiscoveryView(ScimView):
    """What the server can do: RFC 7644, section 4."""

    def get(self, request: Request, name: str, key: str = "") -> Response:
        document = discovery.document(name, key)
        if document is None:
            raise Http404
        return Response(document)
