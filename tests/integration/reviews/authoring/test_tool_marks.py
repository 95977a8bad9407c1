"""The marks of a tool, which admins override on its page."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.urls import reverse

from graphrag.models import Tool
from tests.support.catalogue import stock_catalogue

pytestmark = pytest.mark.django_db


def mcp_tool() -> Tool:
    stock_catalogue()
    Tool.objects.filter(name="builtin.echo").update(kind="mcp", server="kit", read_only=False)
    return Tool.objects.get(name="builtin.echo")


def test_the_marks_of_a_tool_are_overridden(staff: Any) -> None:
    tool = mcp_tool()
    page = reverse("reviews:tool", args=(tool.name,))
    client = staff("root")
    sent = {"permission_set": tool.permission_set, "set_read_only": "yes", "set_destructive": ""}
    assert client.post(page, sent).status_code == 303
    tool.refresh_from_db()
    assert (tool.enabled, tool.read_only, tool.marks_by_hand) == (False, True, {"read_only": True})
    assert LogEntry.objects.get().get_change_message() == "Changed Enabled and Set read-only."
    both = client.post(page, {**sent, "set_destructive": "yes"})
    assert both.status_code == 422
    assert "is not read-only" in both.content.decode()


@pytest.mark.parametrize("role", ["auditor", "operator", "reviewer"])
def test_only_admins_override_marks(staff: Any, role: str) -> None:
    tool = mcp_tool()
    page = reverse("reviews:tool", args=(tool.name,))
    client = staff(role)
    assert "Permission set and marks" not in client.get(page).content.decode()
    assert client.post(page, {"permission_set": "minimal"}).status_code == 403
    tool.refresh_from_db()
    assert tool.enabled
