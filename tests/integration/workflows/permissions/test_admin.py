"""Capabilities in the admin: editable fields, and read-only grants."""

from __future__ import annotations

from django.test import Client
from django.utils.html import escape

from tests.support.http_server import Server
from tests.support.pages import browser
from workflows.models import Capability, Grant

from .conftest import Desk, fetch, use
from .conftest import page as page_url


def admin_client(desk: Desk) -> Client:
    boss = desk.person("boss", "admin")
    boss.is_staff = boss.is_superuser = True
    boss.save()
    return browser(boss)


def test_a_capabilitys_mode_is_editable_and_its_code_is_not(desk: Desk, web: Server) -> None:
    made = desk.capability("page", "python", web, approval_mode="ask")
    url = f"/admin/workflows/capability/{made.pk}/change/"
    client = admin_client(desk)
    assert client.get("/admin/workflows/capability/").status_code == 200
    sent = {"description": "one page", "approval_mode": "auto", "enabled": "on", "code": "1"}
    assert client.post(url, sent).status_code == 302
    kept = Capability.objects.get()
    assert (kept.approval_mode, kept.description, kept.code) == ("auto", "one page", made.code)


def test_a_capability_shows_its_code_and_its_permissions(desk: Desk, web: Server) -> None:
    made = desk.capability("page", "python", web, approval_mode="auto")
    url, client = f"/admin/workflows/capability/{made.pk}/change/", admin_client(desk)
    assert "Use nothing beyond its inputs" in client.get(url).content.decode()
    asked = desk.run(use("ask", "page", url=page_url(web)))
    desk.approve(asked, grant_scope="capability")
    page = client.get(url).content.decode()
    assert "runs by itself" in page
    assert f"127.0.0.1 on port {web.port}" in page
    assert escape(made.code.splitlines()[0]) in page


def test_grants_are_read_only(desk: Desk, web: Server) -> None:
    desk.approve(desk.run(fetch("one", web)))
    client, grant = admin_client(desk), Grant.objects.get()
    listed = client.get("/admin/workflows/grant/").content.decode()
    assert f"connect to {grant.resource}" in listed
    assert "Connect to a server" in listed
    page = client.get(f"/admin/workflows/grant/{grant.pk}/change/").content.decode()
    assert f"connect to {grant.resource}" in page
    for operation, rows in (("net", 1), ("read", 0)):
        chosen = client.get(f"/admin/workflows/grant/?operation={operation}")
        assert chosen.context["cl"].result_count == rows, operation
    assert client.get("/admin/workflows/grant/add/").status_code == 403
    assert client.post(f"/admin/workflows/grant/{grant.pk}/delete/").status_code == 403
