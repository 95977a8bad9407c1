"""Refuse requests that no page of the admin sends, before a view of the admin reads them.

The check is the same for all models, including those of libraries. Without it, Django's admin looks
up rows that cannot exist, which ends in an error of the database, and lists take any lookup of
their columns: `?payload__password__startswith=a` would tell what a masked value begins with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import ERROR_FLAG, IGNORED_PARAMS, PAGE_VAR
from django.core.exceptions import BadRequest, ValidationError
from django.http import Http404, HttpRequest

#: Parameters of a list that are no lookups.
_PARAMETERS = frozenset((*IGNORED_PARAMS, PAGE_VAR, ERROR_FLAG))
_DATE_PARTS = ("__year", "__month", "__day")
#: Operators that may follow the name of a filter.
_OPERATORS = (
    "", "__exact", "__id__exact", "__isnull", "__gte", "__gt", "__lte", "__lt", *_DATE_PARTS
)  # fmt: skip


def check_request(
    request: HttpRequest, view: Callable[..., Any], kwargs: Mapping[str, Any]
) -> None:
    """Refuse what no page of the admin sends.

    Raises Http404 for an impossible address; BadRequest for a parameter or selection;
    DisallowedModelAdminLookup for a filter that the list does not have.
    """
    if any("\0" in str(value) for value in kwargs.values()):
        raise Http404
    if any("\0" in text for name, values in request.GET.lists() for text in (name, *values)):
        raise BadRequest("The query string has a NUL character.")
    model_admin = getattr(view, "__self__", None)
    if not (isinstance(model_admin, ModelAdmin) and view == model_admin.changelist_view):
        return
    _check_selection(request, model_admin)
    if unknown := _unknown_lookups(request, model_admin):
        raise DisallowedModelAdminLookup(f"{', '.join(unknown)}: no filter of this list.")


def _unknown_lookups(request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[str]:
    """Return the lookups that are no filter, date or `linked_lookups` of the list."""
    names = set(_filter_names(request, model_admin))
    known = {f"{name}{operator}" for name in names for operator in _OPERATORS} | _PARAMETERS
    for lookup in known & set(request.GET):
        values = request.GET.getlist(lookup)
        if lookup.endswith(_DATE_PARTS) and not all(map(_is_date_part, values)):
            raise DisallowedModelAdminLookup(f"{lookup} is not a number of a date.")
    return [lookup for lookup in request.GET if lookup not in known]


def _filter_names(request: HttpRequest, model_admin: ModelAdmin[Any]) -> Iterable[str]:
    for each in model_admin.get_list_filter(request):
        if isinstance(each, str):
            yield each
        elif isinstance(each, tuple):
            yield str(each[0])  # the field of a filter class
        elif name := getattr(each, "parameter_name", None):
            yield name
    # Lookups that links of ours use and no filter offers.
    yield from getattr(model_admin, "linked_lookups", ())
    if model_admin.date_hierarchy:
        yield model_admin.date_hierarchy


def _is_date_part(text: str) -> bool:
    return text.isdecimal() and 1 <= int(text[:5]) <= 9999


def _check_selection(request: HttpRequest, model_admin: ModelAdmin[Any]) -> None:
    """Refuse selected rows whose keys no row can have."""
    key = model_admin.opts.pk
    for text in request.POST.getlist(ACTION_CHECKBOX_NAME):
        try:
            key.run_validators(key.to_python(text))
        except ValidationError as error:
            raise BadRequest("The selection has an impossible row.") from error
        if "\0" in text:
            raise BadRequest("The selection has a NUL character.")
