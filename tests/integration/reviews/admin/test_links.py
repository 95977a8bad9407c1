"""Links between the desk and the admin: both ways, for people who may open the other page."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from graphrag.models import Tool
from reviews.decisions.services import DecisionRequest, decide
from reviews.models import HumanReviewRecord
from reviews.queue.claims import claim
from tests.integration.reviews.conftest import echo
from workflows.models import Capability, Grant, Hold, McpServer, Workflow
from workflows.planning.planner import sync_capabilities

pytestmark = pytest.mark.django_db


def admin(label: str, key: Any) -> str:
    return reverse(f"admin:{label}_change", args=(key,))


@pytest.fixture
def places(start: Any, make_user: Any, operator: User) -> dict[str, tuple[str, str]]:
    """Object → its page on the desk, and its page in the admin."""
    review = {"phase": "BEFORE_EXECUTION", "on_reject": "skip"}
    run = start(echo("a", **review), echo("b", **review))
    waiting, decided = run.holds.order_by("opened_seq")
    decider = make_user("decider", "reviewer")
    version = Hold.objects.select_related("execution").get(pk=decided.pk).execution.version
    decide(
        DecisionRequest(
            hold_id=decided.pk, user=decider, decision="REJECT", version=version, source="rest"
        )
    )
    record = HumanReviewRecord.objects.get()
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})
    server = McpServer.objects.create(name="kit", command="/nowhere/at/all")
    tool = Tool.objects.get(name="builtin.echo")
    Tool.objects.filter(pk=tool.pk).update(server="kit")
    capability = Capability.objects.create(
        name="c", language="python", code="1", permission_set={}, created_by=operator
    )
    sync_capabilities()
    grant = Grant.objects.create(
        hold=decided, execution=run, operation="read", resource="a", scope="run",
        granted_by="decider", granted_by_id=decider.pk, permissions={},
    )  # fmt: skip
    page_of_run = reverse("reviews:run", args=(run.pk,))
    page_of_record = reverse("reviews:record", args=(record.pk,))
    page_of_tool = reverse("reviews:tool", args=(tool.name,))
    return {
        "hold": (
            reverse("reviews:decision", args=(run.pk, waiting.pk)),
            admin("workflows_hold", waiting.pk),
        ),
        "run": (page_of_run, admin("workflows_execution", run.pk)),
        "record": (page_of_record, admin("reviews_humanreviewrecord", record.pk)),
        "workflow": (
            reverse("reviews:workflow", args=(workflow.pk,)),
            admin("workflows_workflow", workflow.pk),
        ),
        "tool": (page_of_tool, admin("graphrag_tool", tool.pk)),
        "server": (page_of_tool, admin("workflows_mcpserver", server.pk)),
        "capability": (
            reverse("reviews:tool", args=("capability.c",)),
            admin("workflows_capability", capability.pk),
        ),
        "grant": (reverse("reviews:grants") + "?all=1", admin("workflows_grant", grant.pk)),
        "starter": (page_of_run, admin("auth_user", run.created_by_id)),
        "reviewer": (page_of_record, admin("auth_user", decider.pk)),
    }


def test_the_desk_links_to_the_admin(staff: Any, places: dict[str, tuple[str, str]]) -> None:
    client = staff("auditor")
    for name, (desk, page) in places.items():
        response = client.get(desk)
        assert response.status_code == 200, name
        assert f'href="{page}"' in response.content.decode(), name
        assert client.get(page).status_code == 200, name


def test_no_link_leads_to_a_refusal(staff: Any, places: dict[str, tuple[str, str]]) -> None:
    """Reviewers read no accounts, servers, capabilities and grants; others are not staff."""
    refused = ("server", "capability", "grant", "starter", "reviewer")
    for role, hidden in (("reviewer", refused), ("operator", ("starter", "reviewer"))):
        client = staff(role)
        for name, (desk, page) in places.items():
            shown = f'href="{page}"' in client.get(desk).content.decode()
            assert shown == (name not in hidden), (role, name)
            assert (client.get(page).status_code == 403) == (name in hidden), (role, name)
    User.objects.filter(username="staff-operator").update(is_staff=False)
    for name, (desk, page) in places.items():
        assert page not in client.get(desk).content.decode(), name


def test_names_on_decisions_and_grants_link_to_accounts(
    staff: Any, places: dict[str, tuple[str, str]]
) -> None:
    decider = User.objects.get(username="decider")
    account = f'href="{admin("auth_user", decider.pk)}"'
    open_hold = Hold.objects.get(status=Hold.Status.OPEN)
    claim(hold_id=open_hold.pk, user=decider)
    decided = reverse("reviews:decision", args=Grant.objects.values_list("execution", "hold").get())
    auditor, operator = staff("auditor"), staff("operator")
    for page in (decided, places["hold"][0], places["grant"][0]):
        assert account in auditor.get(page).content.decode(), page
        assert account not in operator.get(page).content.decode(), page


def test_names_in_the_activity_of_a_review_link_to_accounts(
    staff: Any, places: dict[str, tuple[str, str]]
) -> None:
    auditor, operator = staff("auditor"), staff("operator")
    for name, rest in (("decider", "rejected"), ("operator", "started the run")):
        account = admin("auth_user", User.objects.get(username=name).pk)
        entry = f'<li><a class="quiet-link" href="{account}">{name}</a> {rest}'
        assert entry in auditor.get(places["hold"][0]).content.decode()
        text = operator.get(places["hold"][0]).content.decode()
        assert f"<li>{name} {rest}" in text
        assert account not in text


def test_the_admin_links_to_the_desk(staff: Any, places: dict[str, tuple[str, str]]) -> None:
    client = staff("root")
    others = {
        "grant": reverse(
            "reviews:decision", args=Grant.objects.values_list("execution", "hold").get()
        ),
        "starter": "/history/?reviewer=operator",
        "reviewer": "/history/?reviewer=decider",
    }
    # A server has no page of its own on the desk.
    for name, (desk, page) in places.items() - {("server", places["server"])}:
        assert f'href="{others.get(name, desk)}' in client.get(page).content.decode(), name
