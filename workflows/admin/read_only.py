"""Rows that nobody changes by hand, and values as people read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from workflows.executions import access

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Model]
else:
    Base = admin.ModelAdmin

#: Longer values are cut; the whole is to be had over REST.
_SHOWN = 20_000


class ReadOnly(Base):
    """Looked at by whoever may view it; added, changed and deleted by nobody, in bulk neither."""

    actions = None
    show_full_result_count = False
    list_per_page = 50
    #: The way from a row to the execution it belongs to; "" for executions themselves.
    execution_path = "execution__in"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """What the person may know of, as everywhere else."""
        visible = access.visible_to(request.user)
        return super().get_queryset(request).filter(**{self.execution_path: visible})


def pretty(value: Any) -> str:
    """JSON over several lines, cut when it is long."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    left = len(text) - _SHOWN
    return text if left <= 0 else f"{text[:_SHOWN]}\n… {left} more characters"


def block(value: Any) -> SafeString:
    """A JSON value as preformatted, escaped text."""
    return format_html('<pre class="json">{}</pre>', pretty(value))


def link(text: str, name: str, *args: Any) -> SafeString | str:
    """A link to the page of this name, or the text alone when there is no such page."""
    address = url(name, *args)
    return format_html('<a href="{}">{}</a>', address, text) if address else text


def url(name: str, *args: Any) -> str:
    """The address of a page of this or another app; "" when there is none."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""
