"""Actions of the admin: each one names the permission that it needs."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.messages import get_messages
from django.urls import reverse

from reviews.models import ChatHook

pytestmark = pytest.mark.django_db


def test_each_action_names_its_permission() -> None:
    actions = {
        f"{type(rows).__name__}.{name}": function
        for model in (each["model"] for app in _apps() for each in app)
        for rows in (admin.site.get_model_admin(model),)
        for name, function in _actions(rows)
    }
    assert len(actions) > 15
    without = [name for name, each in actions.items() if not _permissions(each)]
    assert without == []


def _apps() -> list[list[dict[str, Any]]]:
    from django.apps import apps

    return [
        [{"model": model} for model in config.get_models() if admin.site.is_registered(model)]
        for config in apps.get_app_configs()
    ]


def _actions(rows: Any) -> list[tuple[str, Any]]:
    chosen = [rows.get_action(each) for each in rows.actions or ()]
    return [(name, function) for function, name, _ in filter(None, chosen)] + list(
        admin.site.actions
    )


def _permissions(action: Any) -> Any:
    return getattr(action, "allowed_permissions", ())


@pytest.mark.parametrize("role", ["auditor", "operator", "admin"])
def test_who_only_views_chats_posts_nothing_to_them(staff: Any, role: str) -> None:
    hook = ChatHook.objects.create(name="chat", url="")
    page = staff(role).post(
        reverse("admin:reviews_chathook_changelist"),
        {"action": "send_test", "_selected_action": hook.pk},
    )
    said = [str(each) for each in get_messages(page.wsgi_request)]
    assert [each for each in said if each.startswith("chat: ")] == []
