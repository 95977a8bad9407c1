"""The plan editor as a page of the admin: who opens it, and where it leads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from tests.integration.reviews.conftest import echo
from tests.support.catalogue import stock_catalogue
from workflows.models import Execution, Workflow

pytestmark = pytest.mark.django_db

EDITOR = reverse("admin:workflows_workflow_editor")
PLANNER = reverse("admin:workflows_workflow_planner")
ADD = reverse("admin:workflows_workflow_add")
LIST = reverse("admin:workflows_workflow_changelist")


@pytest.fixture
def workflow() -> Workflow:
    stock_catalogue()
    return Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})


def opened(client: Any, query: str = "") -> dict[str, str]:
    """The form of the editor as it would be sent back."""
    response = client.get(f"{EDITOR}{query}")
    assert response.status_code == 200, response.content
    assert f'action="{EDITOR}"' in response.content.decode()
    return {"draft": response.context["e"]["draft_json"], "selected": "-1"}


def test_a_start_leads_to_the_run_in_the_admin(staff: Any, workflow: Workflow) -> None:
    operator = staff("operator")
    form = opened(operator, f"?copy={workflow.pk}")
    response = operator.post(EDITOR, form | {"title": "Once", "action": "start"})
    run = Execution.objects.get()
    assert response["Location"] == reverse("admin:workflows_execution_change", args=(run.pk,))
    assert run.created_by is not None
    assert run.created_by.get_username() == "staff-operator"


def test_a_save_leads_to_the_workflow_in_the_admin(staff: Any, workflow: Workflow) -> None:
    admin = staff("admin")
    form = opened(admin, f"?workflow={workflow.pk}")
    response = admin.post(EDITOR, form | {"title": "Renamed", "action": "save"})
    assert response["Location"] == reverse("admin:workflows_workflow_change", args=(workflow.pk,))
    workflow.refresh_from_db()
    assert workflow.title == "Renamed"


def test_a_run_becomes_a_workflow_in_the_admin(staff: Any, workflow: Workflow) -> None:
    operator = staff("operator")
    form = opened(operator, f"?copy={workflow.pk}")
    started = operator.post(EDITOR, form | {"title": "Once", "action": "start"})
    text = operator.get(started["Location"]).content.decode()
    run = Execution.objects.get()
    assert f'href="{EDITOR}?run={run.pk}"' in text
    assert reverse("reviews:editor") not in text


def test_a_plan_from_words_stays_in_the_admin(staff: Any, workflow: Workflow) -> None:
    admin = staff("admin")
    assert f'href="{PLANNER}"' in admin.get(LIST).content.decode()
    assert f'action="{PLANNER}"' in admin.get(PLANNER).content.decode()
    plan = {"plan": json.dumps(workflow.plan), "intent": "Say no", "policy": "{}"}
    edited = admin.post(PLANNER, plan | {"action": "edit"}).content.decode()
    assert f'action="{EDITOR}"' in edited
    assert 'class="admin' in edited
    saved = admin.post(PLANNER, plan | {"action": "save"})
    made = Workflow.objects.get(name="say-no")
    assert saved["Location"] == reverse("admin:workflows_workflow_change", args=(made.pk,))
    started = admin.post(PLANNER, plan | {"action": "start"})
    run = Execution.objects.get()
    assert started["Location"] == reverse("admin:workflows_execution_change", args=(run.pk,))


def test_a_conflict_compares_versions_in_the_admin(staff: Any, workflow: Workflow) -> None:
    admin = staff("admin")
    form = opened(admin, f"?workflow={workflow.pk}")
    admin.post(EDITOR, form | {"title": "First", "action": "save"})
    late = admin.post(EDITOR, form | {"title": "Late", "action": "save"})
    assert late.status_code == 422
    assert f'href="{versions(workflow)}"' in late.content.decode()


def versions(workflow: Workflow) -> str:
    return reverse("admin:workflows_workflow_versions", args=(workflow.pk,))


def restored(workflow: Workflow, number: int) -> str:
    return reverse("admin:workflows_workflow_restore", args=(workflow.pk, number))


@pytest.fixture
def two_versions(staff: Any, workflow: Workflow) -> Workflow:
    admin = staff("admin")
    for title in ("First", "Second"):
        form = opened(admin, f"?workflow={workflow.pk}")
        admin.post(EDITOR, form | {"title": title, "action": "save"})
    workflow.refresh_from_db()
    return workflow


def test_versions_are_compared_exported_and_restored(staff: Any, two_versions: Workflow) -> None:
    admin, url = staff("admin", name="boss"), versions(two_versions)
    change = reverse("admin:workflows_workflow_change", args=(two_versions.pk,))
    assert f'href="{url}"' in admin.get(change).content.decode()
    text = admin.get(f"{url}?from=1&to=2").content.decode()
    assert "From v1 to v2" in text
    assert "First" in text
    assert 'class="admin' in text
    assert reverse("reviews:workflow_yaml", args=(two_versions.pk,)) in text
    assert f'action="{restored(two_versions, 1)}"' in text
    answer = admin.post(restored(two_versions, 1))
    assert (answer.status_code, answer["Location"]) == (303, url)
    two_versions.refresh_from_db()
    assert two_versions.title == "First"
    assert admin.post(restored(two_versions, 99)).status_code == 404
    assert admin.get(restored(two_versions, 1)).status_code == 405


def test_versions_are_restored_by_admins_only(
    staff: Any, two_versions: Workflow, make_user: Any
) -> None:
    for role in ("operator", "auditor"):
        client = staff(role)
        text = client.get(versions(two_versions)).content.decode()
        assert "Versions of “Second”" in text
        assert restored(two_versions, 1) not in text
        assert client.post(restored(two_versions, 1)).status_code == 403
    # Staff without the right to see workflows in the admin are refused there.
    client = Client()
    client.force_login(make_user("clerk", is_staff=True))
    assert client.get(versions(two_versions)).status_code == 403
    assert client.post(restored(two_versions, 1)).status_code == 403
    two_versions.refresh_from_db()
    assert two_versions.title == "Second"


def test_add_opens_the_editor_and_json_is_a_link_away(staff: Any, workflow: Workflow) -> None:
    admin = staff("admin")
    assert admin.get(ADD)["Location"] == EDITOR
    assert f'href="{ADD}?json"' in admin.get(LIST).content.decode()
    for query in ("?json", "?_popup=1"):
        assert "adminform" in admin.get(f"{ADD}{query}").context
    operator = staff("operator")
    assert operator.get(ADD).status_code == 403
    assert f"{ADD}?json" not in operator.get(LIST).content.decode()


def test_staff_who_may_add_without_the_role_keep_the_form(make_user: Any) -> None:
    clerk = make_user("clerk", "operator", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="add_workflow"))
    client = Client()
    client.force_login(clerk)
    assert "adminform" in client.get(ADD).context


def test_auditors_start_nothing(staff: Any, workflow: Workflow) -> None:
    auditor = staff("auditor")
    assert auditor.get(EDITOR).status_code == 403
    assert auditor.post(EDITOR, {"action": "start"}).status_code == 403
    assert auditor.get(PLANNER).status_code == 403
    assert auditor.post(PLANNER, {"action": "start"}).status_code == 403
    change = reverse("admin:workflows_workflow_change", args=(workflow.pk,))
    for page in (LIST, change):
        text = auditor.get(page).content.decode()
        assert EDITOR not in text
        assert PLANNER not in text


def test_operators_are_offered_what_they_may_do(staff: Any, workflow: Workflow) -> None:
    operator = staff("operator")
    assert f'href="{EDITOR}"' in operator.get(LIST).content.decode()
    change = reverse("admin:workflows_workflow_change", args=(workflow.pk,))
    text = operator.get(change).content.decode()
    assert f"{EDITOR}?copy={workflow.pk}" in text
    assert f"{EDITOR}?workflow={workflow.pk}" not in text
    assert operator.get(f"{EDITOR}?workflow={workflow.pk}").status_code == 404
