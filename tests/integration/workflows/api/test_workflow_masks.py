"""Secrets in the definition of a workflow: only people who may change it read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from tests.support.pages import browser
from workflows.common.redaction import DOTS
from workflows.models import Workflow
from workflows.permissions.roles import ensure_roles

from .conftest import plain_plan

pytestmark = pytest.mark.django_db

URL = "/api/v1/workflows/"
SECRETS = ("hunter2-abcdef", "s3cret-by-schema", "s3cret-by-policy")


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def secretive(workflow: Workflow, request: pytest.FixtureRequest) -> Workflow:
    plan = plain_plan(2)
    plan["tasks"][0]["arguments"] = {"value": {"password": "hunter2-abcdef"}}
    plan["tasks"][1]["arguments"] = {"value": {"token": {"$from": "t0", "select": "a.b"}}}
    workflow.plan = plan
    workflow.policy = {"secrets": ["customer.iban"]}
    workflow.inputs_schema = {"properties": {"code": {"type": "string", "writeOnly": True}}}
    workflow.default_inputs = {
        "code": "s3cret-by-schema",
        "customer": {"iban": "s3cret-by-policy", "name": "Ann"},
    }
    workflow.enabled = request.param
    workflow.save()
    return workflow


def has_secrets(text: str) -> list[str]:
    return [each for each in SECRETS if each in text]


@pytest.mark.parametrize("role", ["reviewer", "operator", "auditor", "integrator"])
def test_readers_get_masks_over_rest(bearer: Any, secretive: Workflow, role: str) -> None:
    client = bearer(role)
    one = client.get(f"{URL}echo/")
    for response in (one, client.get(URL)):
        assert response.status_code == 200
        assert has_secrets(response.content.decode()) == []
    body = one.json()
    assert DOTS in json.dumps(body["plan"], ensure_ascii=False)
    assert body["default_inputs"]["customer"]["name"] == "Ann"
    reference = {"$from": "t0", "select": "a.b"}
    assert body["plan"]["tasks"][1]["arguments"]["value"]["token"] == reference


def test_admins_read_what_they_change(bearer: Any, secretive: Workflow) -> None:
    for response in (
        bearer("admin").get(f"{URL}echo/"),
        bearer("admin").patch(f"{URL}echo/", {"title": "Other"}),
    ):
        assert has_secrets(response.content.decode()) == list(SECRETS)
    # A token that changes no workflow reads like everybody.
    reading = bearer("admin", ["read"]).get(f"{URL}echo/")
    assert has_secrets(reading.content.decode()) == []


@pytest.mark.parametrize("field", ["plan", "default_inputs"])
def test_a_mask_is_not_stored(bearer: Any, secretive: Workflow, field: str) -> None:
    masked = bearer("operator").get(f"{URL}echo/").json()
    response = bearer("admin").patch(f"{URL}echo/", {field: masked[field]})
    assert response.status_code == 422
    assert [(each["path"], each["code"]) for each in response.json()["errors"]] == [
        (field, "masked")
    ]
    before = (secretive.plan, secretive.default_inputs)
    secretive.refresh_from_db()
    assert (secretive.plan, secretive.default_inputs) == before


@pytest.mark.parametrize("role", ["reviewer", "operator", "auditor", "admin"])
def test_the_admin_and_exports_mask_likewise(people: Any, secretive: Workflow, role: str) -> None:
    ensure_roles()
    user = people[role]
    user.is_staff = True
    user.save()
    client = browser(user)
    expected = list(SECRETS) if role == "admin" else []
    page = client.get(reverse("admin:workflows_workflow_change", args=(secretive.pk,)))
    assert page.status_code == 200
    assert has_secrets(page.content.decode()) == expected
    assert "Ann" in page.content.decode()
    for kind in ("json", "yaml"):
        sent = client.get(reverse(f"reviews:workflow_{kind}", args=(secretive.pk,)))
        if role != "admin" and not secretive.enabled:
            assert sent.status_code == 404
        else:
            assert sent.status_code == 200
            assert has_secrets(sent.content.decode()) == expected
