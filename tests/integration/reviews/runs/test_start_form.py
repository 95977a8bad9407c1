"""The form that starts a run masks secret default inputs, and the run gets them unless changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.integration.reviews.conftest import echo
from tests.support.catalogue import stock_catalogue
from tests.support.pages import Page
from workflows.models import Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db

SECRET, DEFAULT, LISTED = "hunter2hunter2", "schema-default-2", "listed-value-3"


@pytest.fixture
def workflow() -> Workflow:
    stock_catalogue()
    schema = {
        "type": "object",
        "properties": {
            "host": {"type": "string"},
            "pin": {"type": "string", "writeOnly": True},
            "key": {"type": "string", "format": "password", "default": DEFAULT},
            "iban": {"type": "string"},
        },
    }
    return Workflow.objects.create(
        name="w",
        title="W",
        plan={"tasks": [echo("a", {"$from": "inputs"})]},
        inputs_schema=schema,
        default_inputs={"host": "mail.example", "pin": SECRET, "iban": LISTED},
        policy={"secrets": ["iban"]},
    )


def opened(user: User, workflow: Workflow) -> tuple[Client, Page, str]:
    client = Client()
    client.force_login(user)
    response = client.get(f"/workflows/{workflow.pk}/")
    return client, Page(response), response.content.decode()


def start(client: Client, workflow: Workflow, **fields: Any) -> Any:
    return client.post(f"/workflows/{workflow.pk}/start/", fields)


def test_secret_defaults_are_masked_and_reach_the_run(operator: User, workflow: Workflow) -> None:
    client, page, text = opened(operator, workflow)
    for secret in (SECRET, DEFAULT, LISTED):
        assert secret not in text
        assert secret not in client.get("/runs/").content.decode()
    sent = {**page.fields("form.starter"), "v:/host": "other.example"}
    assert start(client, workflow, **sent).status_code == 303
    inputs = {"host": "other.example", "pin": SECRET, "key": DEFAULT, "iban": LISTED}
    assert Execution.objects.get().inputs == inputs


def test_a_changed_secret_is_typed_unseen(operator: User, workflow: Workflow) -> None:
    Workflow.objects.update(default_inputs={"host": "mail.example"})
    client, page, text = opened(operator, workflow)
    assert 'type="password"' in text
    sent = {**page.fields("form.starter"), "v:/pin": "new-pin", "s:/pin": "set"}
    assert start(client, workflow, **sent).status_code == 303
    assert Execution.objects.get().inputs["pin"] == "new-pin"


def test_a_mask_at_another_place_is_refused(operator: User, workflow: Workflow) -> None:
    client, page, _ = opened(operator, workflow)
    fields = page.fields("form.starter")
    moved = start(client, workflow, **{**fields, "v:/host": fields["v:/pin"]})
    assert moved.status_code == 422
    assert SECRET not in moved.content.decode()
    assert not Execution.objects.exists()
