"""The walk through every page of the admin: which there are, and how each is reached."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.contrib import admin
from django.urls import URLPattern, URLResolver, resolve, reverse
from playwright.sync_api import Page, expect

from tests.e2e.product import Product
from tests.e2e.scene import Scene
from tests.e2e.walk import Walk

#: Routes of the admin that answer a GET with something else than a page of their own.
NOT_PAGES = {
    "admin:login": "a redirect to the sign-in page",
    "admin:logout": "a POST",
    "admin:app_list": "a redirect to the first page",
    "admin:autocomplete": "a part of forms",
    "admin:jsi18n": "a script",
    "admin:workflows_hold_bulk": "a POST; its page is measured at the list's address",
    "admin:workflows_mcpserver_test": "a POST",
    "admin:workflows_workflow_restore": "a POST",
    "admin:password_change_done": "one sentence after the form",
}
#: Pages of django-rq: its first page and its workers are measured. Its lists of jobs have a check
#: box without a name that selects all.
JOBS = "admin:django_rq_"
#: Pages of Django that are the same for every model: one of each is measured.
SAME = ("_history", "_delete")
#: One row of each model that the other stories leave without any.
ROWS = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from graphrag.models import LearnedExecution, Tool, ToolDependency
from reviews.models import (
    ChatHook, NoticeMessage, ReviewClaim, SecurityExport, SlackAccount, SlackChannel, SlackMessage,
    SlackWorkspace)
from workflows.models import (
    Absence, BusinessCalendar, Capability, Gate, GateCall, Grant, Hold, McpServer, SignInAlert)
hold = Hold.objects.filter(status="OPEN").order_by("opened_at").first()
operator = User.objects.get(username="operator")
later = timezone.now() + timedelta(days=1)
ReviewClaim.objects.get_or_create(hold=hold, defaults={"user": operator, "expires_at": later})
Capability.objects.get_or_create(name="pears", defaults={
    "language": "python", "code": "1", "permission_set": {}, "created_by": operator,
    "enabled": False})
Grant.objects.get_or_create(hold=hold, execution=hold.execution, operation="read", resource="a",
    scope="run", defaults={"granted_by": "reviewer", "permissions": {}})
Absence.objects.get_or_create(user=operator, defaults={
    "delegate": User.objects.get(username="admin"), "begins_at": later,
    "ends_at": later + timedelta(days=1), "created_by": "operator"})
BusinessCalendar.objects.get_or_create(
    name="pears", defaults={"week": [[["09:00", "17:00"]]] * 7})
gate, _ = Gate.objects.get_or_create(name="pears")
gate.servers.set(McpServer.objects.all())
GateCall.objects.get_or_create(gate=gate, user=operator, tool="git.git_log", policy="allow")
SecurityExport.objects.get_or_create(name="file")
SignInAlert.objects.get_or_create(
    kind="account", account="x", defaults={"failures": 3, "locked_until": later})
hook, _ = ChatHook.objects.get_or_create(name="chat", defaults={"enabled": False})
LearnedExecution.objects.get_or_create(execution_key="pears")
first, second = Tool.objects.order_by("name")[:2]
ToolDependency.objects.get_or_create(from_tool=first, to_tool=second)
NoticeMessage.objects.get_or_create(hook=hook, defaults={"next_at": later})
slack, _ = SlackWorkspace.objects.get_or_create(
    team_id="T0PEARS", defaults={"name": "Pears", "enabled": False})
SlackChannel.objects.get_or_create(workspace=slack, channel="C0PEARS")
account, _ = SlackAccount.objects.get_or_create(
    workspace=slack, slack_user="U0PEARS", defaults={"user": operator})
SlackMessage.objects.get_or_create(account=account, key="pears", defaults={
    "workspace": slack, "hold": hold, "kind": "waiting", "status": "SENT"})
"""
#: The link of a list's first row.
FIRST = "#result_list tbody th a, #result_list tbody td.action-checkbox + td a"


def as_admin(walk: Walk, scene: Scene) -> None:
    """Each section, then the list, a change form and the add form of each model."""
    walk.product.command("shell", "--command", ROWS)
    walk.go("/admin/")
    for key in ("reviews", "people", "system"):
        walk.go(f"/admin/section/{key}/")
    for base in lists():
        walk.go(base)
        first = walk.page.locator(FIRST)
        if first.count():
            walk.go(str(first.first.get_attribute("href")))
        else:
            walk.seen.add(resolve(f"{base}1/change/").view_name)  # no row: no such page now
        if walk.page.request.get(f"{walk.product.address}{base}add/").status == 200:
            walk.go(f"{base}add/")
    reviews(walk, scene)
    workflows(walk)
    for path in ("password_change/", "auth/user/1/password/", "auth/user/1/history/"):
        walk.go(f"/admin/{path}")
    walk.go("/admin/auth/user/1/delete/")
    on_the_desk(walk)
    walk.go(reverse(f"{JOBS}home"))
    walk.go(reverse(f"{JOBS}workers", args=(0,)))


def on_the_desk(walk: Walk) -> None:
    """The marks of a tool."""
    walk.page.goto(f"{walk.product.address}/tools/demo.draft_release_notes/")
    walk.page.get_by_text("Permission set and marks").click()
    walk.measure("the marks of a tool")


def lists() -> list[str]:
    """The addresses of the lists of our models, and of Django's own."""
    found = [each for each in apps.get_models() if admin.site.is_registered(each)]
    return [
        f"/admin/{each._meta.app_label}/{each._meta.model_name}/"
        for each in found
        if each._meta.app_label != "django_rq"
    ]


def reviews(walk: Walk, scene: Scene) -> None:
    """The decision form of each kind of review, open and decided; three actions."""
    for run in (scene.before, scene.after, scene.escalated, scene.decided):
        walk.go(f"/admin/workflows/hold/{run}-1/change/")
    with walk.briefly():
        for hold in (scene.layer_approval, scene.plan_review):
            walk.go(f"/admin/workflows/hold/{hold}/change/")
    for run in (scene.before, scene.done, scene.grown):
        walk.go(f"/admin/workflows/execution/{run}/change/")
    walk.go(f"/admin/workflows/execution/{scene.grown}/fork/0/")
    for action in ("Reject…", "Assign…", "Extend the deadline…"):
        walk.page.goto(f"{walk.product.address}/admin/workflows/hold/?q={scene.before}-1")
        walk.page.get_by_role("checkbox", name="Select this object").first.check()
        walk.page.get_by_role("combobox", name="Action").select_option(label=action)
        walk.press("Go")
        expect(walk.page.get_by_role("link", name="Cancel")).to_be_visible()
        walk.measure(f"the page of the action {action}")
    walk.go("/admin/workflows/hold/?q=nothing-is-called-this")


def workflows(walk: Walk) -> None:
    """Importing servers, plans from words, versions, and the plan editor with an open task."""
    walk.go("/admin/workflows/mcpserver/import/")
    walk.go("/admin/workflows/workflow/add/?json")
    walk.go("/admin/workflows/workflow/planner/")
    walk.page.goto(f"{walk.product.address}/admin/workflows/workflow/")
    walk.page.get_by_role("link", name="Release notes").click()
    walk.page.get_by_role("link", name="Versions").click()
    walk.measure("the versions in the admin")
    walk.page.goto(f"{walk.product.address}/admin/workflows/workflow/")
    walk.page.get_by_role("link", name="Release notes").click()
    walk.page.get_by_role("link", name="Duplicate in the plan editor").click()
    expect(walk.page.locator("#editor")).to_be_visible()
    walk.page.wait_for_load_state()
    walk.page.get_by_role("list", name="Tasks in order").get_by_role(
        "button", name="write"
    ).first.click()
    expect(walk.page.locator("#task-title")).to_be_focused()
    walk.measure("the plan editor in the admin, with an open task")
    walk.page.get_by_role("button", name="Add Python code").click()
    expect(walk.page.get_by_label("New input", exact=True)).to_be_visible()
    walk.fill("New input", "two words", exact=True)
    walk.press("Add input")
    expect(walk.page.get_by_label("New input", exact=True)).to_be_focused()
    walk.fill("New input", "text", exact=True)
    walk.press("Add input")
    expect(walk.page.get_by_label("Source of text of code")).to_be_focused()
    walk.measure("the inputs of code")


def unwalked_in_the_admin(seen: set[str], page: Page, product: Product) -> list[str]:
    """The pages of the admin whose names are not among `seen`; an admin is signed in."""
    return [
        name
        for name in routes(admin.site.get_urls())
        if name not in seen | set(NOT_PAGES)
        and not name.startswith(JOBS)
        and not name.endswith(SAME)
        and not (name.endswith("_add") and is_refused(page, product, name))
    ]


def routes(patterns: list[URLPattern | URLResolver]) -> Iterator[str]:
    for each in patterns:
        if isinstance(each, URLResolver):
            yield from routes(each.url_patterns)
        elif each.name:
            yield f"admin:{each.name}"


def is_refused(page: Page, product: Product, name: str) -> bool:
    return page.request.get(f"{product.address}{reverse(name)}").status == 403
