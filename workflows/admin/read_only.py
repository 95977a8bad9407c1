"""A read-only ModelAdmin, and formatting of values and links."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from workflows.executions import access

#: Longer values are cut; REST returns the full value.
_MAX_CHARS = 20_000


class ReadOnly(admin.ModelAdmin[Any]):
    """A ModelAdmin without adding, changing, deleting and bulk actions."""

    actions: tuple[str, ...] | None = None
    show_full_result_count = False
    list_per_page = 50
    #: Lookup from a row to its execution; "pk__in" for executions themselves.
    execution_path = "execution__in"

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Rows of the executions that the user may see, as on all pages."""
        visible = access.visible_to(request.user)
        return super().get_queryset(request).filter(**{self.execution_path: visible})


class WorkflowFilter(admin.RelatedFieldListFilter):
    """By workflow, and runs without one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.empty_value_display = format_html("{}", _("No workflow"))


def pretty(value: Any) -> str:
    """Return indented JSON, cut to `_MAX_CHARS`."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    left = len(text) - _MAX_CHARS
    return text if left <= 0 else f"{text[:_MAX_CHARS]}\n… {left} more characters"


def block(value: Any) -> SafeString:
    """Return a JSON value as preformatted, escaped HTML."""
    return format_html('<pre class="json" tabindex="0">{}</pre>', pretty(value))


def link(text: str, name: str, *args: Any) -> SafeString | str:
    """Return a link to a named URL, or only the text if there is no such URL."""
    address = url(name, *args)
    return format_html('<a href="{}">{}</a>', address, text) if address else text


def url(name: str, *args: Any) -> str:
    """Return the path of a named URL; "" if there is no such URL."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""
