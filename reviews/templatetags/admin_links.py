"""Links to the admin's page of an object, for people who may open that page."""

from __future__ import annotations

from typing import Any

from django import template
from django.apps import apps
from django.contrib.admin.utils import quote
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from reviews.components.admin_rights import may

from .desk import visible

register = template.Library()


@register.simple_tag(takes_context=True)
def admin_link(context: Context, label: str, key: Any) -> SafeString | str:
    """Return the link “Open in the admin” to the object of model `label` with this key, or ""."""
    url = _url(context, label, key)
    if not url:
        return ""
    text = _("Open in the admin")
    return format_html('<a class="quiet-link to-admin" href="{}">{}</a>', url, text)


@register.simple_tag(takes_context=True)
def account_url(context: Context, key: Any) -> str:
    """Return the address of a person's account for people who may see accounts, or ""."""
    return _url(context, "auth.user", key)


@register.simple_tag(takes_context=True)
def person(context: Context, name: str, key: Any) -> SafeString | str:
    """Return a person's name, linked to their account for people who may see accounts."""
    url = _url(context, "auth.user", key)
    shown = visible(name)
    return format_html('<a class="quiet-link" href="{}">{}</a>', url, shown) if url else shown


@register.simple_tag(takes_context=True)
def person_in(context: Context, sentence: str, name: str, key: Any) -> SafeString | str:
    """Return a sentence whose first mention of a person is linked as `person` links it."""
    before, mention, after = sentence.partition(name)
    if not key or not name or not mention:
        return visible(sentence)
    linked = person(context, mention, key)
    return format_html("{}{}{}", visible(before), linked, visible(after))


def _url(context: Context, label: str, key: Any) -> str:
    request = context.get("request")
    if request is None or not key or not may(request, "view", apps.get_model(label)):
        return ""
    return reverse(f"admin:{label.replace('.', '_')}_change", args=(quote(key),))
