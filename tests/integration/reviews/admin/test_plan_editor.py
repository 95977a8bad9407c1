"""The plan editor as a page of the admin: who opens it, and where it leads."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from tests.integration.reviews.conftest import echo
from tests.support.catalogue import stock_catalogue
from workflows.models import Execution, Workflow

pytestmark = pytest.mark.django_db

EDITOR = reverse("admin:workflows_workflow_editor")
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


def test_auditors_start_nothing(staff: Any, workflow: Workflow) -> None:
    auditor = staff("auditor")
    assert auditor.get(EDITOR).status_code == 403
    assert auditor.post(EDITOR, {"action": "start"}).status_code == 403
    change = reverse("admin:workflows_workflow_change", args=(workflow.pk,))
    for page in (LIST, change):
        assert EDITOR not in auditor.get(page).content.decode()


def test_operators_are_offered_what_they_may_do(staff: Any, workflow: Workflow) -> None:
    operator = staff("operator")
    assert f'href="{EDITOR}"' in operator.get(LIST).content.decode()
    change = reverse("admin:workflows_workflow_change", args=(workflow.pk,))
    text = operator.get(change).content.decode()
    assert f"{EDITOR}?copy={workflow.pk}" in text
    assert f"{EDITOR}?workflow={workflow.pk}" not in text
    assert operator.get(f"{EDITOR}?workflow={workflow.pk}").status_code == 404
