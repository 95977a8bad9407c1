"""Starters may make a run's policy stricter; loosening it needs a permission."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from rest_framework.test import APIClient

from tests.integration.workflows.api.conftest import BearerFor, plain_plan, reviewed_plan
from tests.support.groups import group_of
from workflows.executions import services
from workflows.executions.idempotency import json_text
from workflows.executions.jobs import run_to_rest
from workflows.executions.validation import InvalidRequest
from workflows.models import Checkpoint, Execution, RuleVersion, Workflow
from workflows.permissions.tokens import create_token

URL = "/api/v1/executions/"
Session = Callable[[str], APIClient]
Start = Callable[..., Execution]

STRICT: dict[str, Any] = {
    "four_eyes": True,
    "hil": {"enabled": True, "groups": ["reviewer"], "timeout_seconds": 600},
    "replan_review": {"enabled": True, "quorum": 2},
    "per_layer_validation": True,
    "permission_ceiling": "readonly",
    "secrets": ["customer.iban"],
    "undo_seconds": 30,
    "reminders": [{"after_seconds": 60}],
    "escalation": [{"after_seconds": 90, "groups": ["legal"]}],
    "ail": {"enabled": True, "agent": "external"},
}

#: override, the path at fault, what the workflow asks for
LOOSER: list[tuple[dict[str, Any], str, Any]] = [
    ({"four_eyes": False}, "four_eyes", True),
    ({"hil": {"enabled": False}}, "hil.enabled", True),
    ({"hil": {"approval_required": "never"}}, "hil.approval_required", "always"),
    ({"hil": {"on_timeout": "approve"}}, "hil.on_timeout", "abort"),
    ({"hil": {"groups": ["friends"]}}, "hil.groups", ["reviewer"]),
    ({"replan_review": False}, "replan_review.enabled", True),
    ({"replan_review": {"quorum": 1}}, "replan_review.quorum", 2),
    ({"per_layer_validation": False}, "per_layer_validation", True),
    ({"permission_ceiling": "trusted"}, "permission_ceiling", "readonly"),
    ({"files": "workflow"}, "files", "run"),
    ({"secrets": []}, "secrets", ["customer.iban"]),
    ({"undo_seconds": 0}, "undo_seconds", 30.0),
    ({"reminders": []}, "reminders", [{"after_seconds": 60}]),
    ({"escalation": []}, "escalation", [{"after_seconds": 90}]),
    ({"ail": {"enabled": False}}, "ail.enabled", True),
    ({"speculation": {"enabled": True}}, "speculation.enabled", False),
]


@pytest.fixture
def strict(workflow: Workflow) -> Workflow:
    workflow.policy = STRICT
    workflow.save()
    return workflow


@pytest.mark.parametrize(("override", "path", "asked"), LOOSER)
def test_a_reviewer_loosens_nothing(
    bearer: BearerFor, strict: Workflow, override: dict[str, Any], path: str, asked: Any
) -> None:
    answer = bearer("reviewer").post(URL, {"workflow": "echo", "policy": override})
    assert answer.status_code == 422
    errors = {each["path"]: each for each in answer.json()["errors"]}
    assert errors[f"policy.{path}"]["code"] == "policy_loosened"
    message = errors[f"policy.{path}"]["message"]
    if not isinstance(asked, list) or not asked or not isinstance(asked[0], dict):
        assert f"the workflow requires {json_text(asked)}, and " in message
    assert not Execution.objects.exists()


def test_the_error_names_both_values(bearer: BearerFor, strict: Workflow) -> None:
    body = {"workflow": "echo", "policy": {"hil": {"groups": ["friends"]}}}
    (error,) = bearer("reviewer").post(URL, body).json()["errors"]
    assert error["path"] == "policy.hil.groups"
    assert error["message"].startswith(
        'the workflow requires ["reviewer"], and ["friends"] is looser'
    )


def test_a_stricter_override_takes_effect_and_is_shown(bearer: BearerFor, strict: Workflow) -> None:
    body = {"workflow": "echo", "policy": {"replan_review": {"quorum": 3}, "undo_seconds": 60}}
    shown = bearer("reviewer").post(URL, body).json()
    assert (shown["policy"]["replan_review"]["quorum"], shown["policy"]["undo_seconds"]) == (3, 60)
    assert shown["policy_overrides"] == [
        {"field": "replan_review.quorum", "from": 2, "to": 3, "loosens": False, "by": "reviewer"},
        {"field": "undo_seconds", "from": 30.0, "to": 60.0, "loosens": False, "by": "reviewer"},
    ]


def test_unchanged_fields_are_no_override(bearer: BearerFor, strict: Workflow) -> None:
    shown = bearer("reviewer").post(URL, {"workflow": "echo", "policy": {"four_eyes": True}})
    assert shown.json()["policy_overrides"] == []


def test_an_operator_loosens_and_is_named(session: Session, strict: Workflow) -> None:
    shown = session("operator").post(
        URL, {"workflow": "echo", "policy": {"four_eyes": False}}, format="json"
    )
    assert shown.status_code == 201
    assert shown.json()["policy"]["four_eyes"] is False
    assert shown.json()["policy_overrides"] == [
        {"field": "four_eyes", "from": True, "to": False, "loosens": True, "by": "operator"}
    ]


def test_the_permission_can_be_given_to_a_person(
    people: dict[str, User], session: Session, strict: Workflow
) -> None:
    permission = Permission.objects.get(codename="loosen_policy")
    people["reviewer"].user_permissions.add(permission)
    body = {"workflow": "echo", "policy": {"four_eyes": False}}
    assert session("reviewer").post(URL, body, format="json").status_code == 201


def test_the_permission_is_taken_with_the_group(
    people: dict[str, User], session: Session, strict: Workflow
) -> None:
    people["operator"].groups.set([group_of("reviewer")])
    body = {"workflow": "echo", "policy": {"four_eyes": False}}
    assert session("operator").post(URL, body, format="json").status_code == 422


# --- tokens ---------------------------------------------------------------------------------------


def test_a_token_needs_the_scope(bearer: BearerFor, strict: Workflow) -> None:
    body = {"workflow": "echo", "policy": {"four_eyes": False}}
    without = bearer("operator", ("read", "run", "decide"))
    assert without.post(URL, body).status_code == 422
    assert bearer("operator", ("read", "run", "loosen")).post(URL, body).status_code == 201


def test_a_superusers_token_needs_the_scope_as_well(
    people: dict[str, User], strict: Workflow
) -> None:
    root = User.objects.create_superuser("root")
    body = {"workflow": "echo", "policy": {"four_eyes": False}}
    for scopes, status in ((("run", "read"), 422), (("run", "read", "loosen"), 201)):
        _, text = create_token(user=root, name="t", scopes=scopes)
        client = APIClient(headers={"Authorization": f"Bearer {text}"})
        assert client.post(URL, body).status_code == status


def test_creating_a_loosening_token_needs_the_permission(people: dict[str, User]) -> None:
    with pytest.raises(InvalidRequest, match="loosen_policy"):
        create_token(user=people["reviewer"], name="t", scopes=["run", "loosen"])


def test_a_token_without_the_scope_creates_none_with_it(bearer: BearerFor) -> None:
    client = bearer("admin", ("read", "admin"))
    made = client.post("/api/v1/tokens/", {"name": "x", "scopes": ["run", "loosen"]})
    assert made.status_code == 403


# --- plans without a workflow ---------------------------------------------------------------------


def floor(settings: Any, **fields: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "policy_floor": fields}


def test_an_ad_hoc_plan_has_four_eyes(bearer: BearerFor, catalogue: None) -> None:
    client = bearer("reviewer")
    body = {"plan": plain_plan(), "policy": {"four_eyes": False}}
    (error,) = client.post(URL, body).json()["errors"]
    assert (error["path"], error["code"]) == ("policy.four_eyes", "policy_loosened")
    assert "this installation requires true" in error["message"]
    assert client.post(URL, {"plan": plain_plan()}).json()["policy"]["four_eyes"] is True


def test_fields_outside_the_floor_are_free(bearer: BearerFor, catalogue: None) -> None:
    body = {"plan": plain_plan(), "policy": {"speculation": {"enabled": True}, "undo_seconds": 0}}
    shown = bearer("reviewer").post(URL, body).json()
    assert [(each["field"], each["loosens"]) for each in shown["policy_overrides"]] == [
        ("speculation.enabled", False),
        ("undo_seconds", False),
    ]


def test_the_floor_applies_by_default(bearer: BearerFor, catalogue: None, settings: Any) -> None:
    floor(settings, hil={"enabled": True, "approval_required": "critical_only"}, four_eyes=True)
    client = bearer("integrator")
    shown = client.post(URL, {"plan": plain_plan()}).json()
    assert shown["policy"]["hil"]["enabled"] is True
    body = {"plan": plain_plan(), "policy": {"hil": {"approval_required": "never"}}}
    assert client.post(URL, body).status_code == 422
    body = {"plan": plain_plan(), "policy": {"hil": {"approval_required": "always"}}}
    assert client.post(URL, body).status_code == 201


def test_the_plan_of_a_workflow_is_not_replaced(bearer: BearerFor, strict: Workflow) -> None:
    body = {"workflow": "echo", "plan": plain_plan()}
    answer = bearer("operator").post(URL, body)
    assert answer.status_code == 422
    with pytest.raises(InvalidRequest, match="a workflow or a plan"):
        services.start_execution(actor=None, workflow=strict, plan=plain_plan())


# --- forks ----------------------------------------------------------------------------------------


@pytest.fixture
def stopped(start: Start) -> Execution:
    """A run of an integrator's own plan that has a checkpoint behind its first layer."""
    plan = {"tasks": [*plain_plan()["tasks"], *reviewed_plan()["tasks"]]}
    for task in plan["tasks"][1:]:
        task["depends_on"] = ["t0"]
    return start("integrator", plan)


def fork(client: APIClient, execution: Execution, **more: Any) -> Any:
    checkpoint = Checkpoint.objects.filter(execution=execution).latest("layer")
    return client.post(f"{URL}{execution.pk}/fork/", {"checkpoint": str(checkpoint.pk), **more})


def test_a_fork_takes_no_policy(bearer: BearerFor, stopped: Execution) -> None:
    answer = fork(bearer("integrator"), stopped, policy={"four_eyes": False})
    assert answer.status_code == 422
    assert [each["path"] for each in answer.json()["errors"]] == ["policy"]


def test_forking_a_loosened_run_needs_the_permission(
    bearer: BearerFor, people: dict[str, User], stopped: Execution
) -> None:
    Execution.objects.filter(pk=stopped.pk).update(policy={**stopped.policy, "four_eyes": False})
    answer = fork(bearer("integrator"), stopped)
    assert answer.status_code == 422
    assert [each["path"] for each in answer.json()["errors"]] == ["policy.four_eyes"]
    shown = fork(bearer("operator"), stopped).json()
    assert shown["policy_overrides"] == [
        {"field": "four_eyes", "from": True, "to": False, "loosens": True, "by": "integrator"}
    ]


def test_a_fork_is_checked_against_the_current_floor(
    bearer: BearerFor, stopped: Execution, settings: Any
) -> None:
    assert fork(bearer("integrator"), stopped).status_code == 201
    floor(settings, four_eyes=True, replan_review=True)
    answer = fork(bearer("integrator"), stopped)
    assert [each["path"] for each in answer.json()["errors"]] == ["policy.replan_review.enabled"]


# --- shown ----------------------------------------------------------------------------------------


def test_reviewers_see_the_overrides(
    bearer: BearerFor, session: Session, workflow: Workflow, people: dict[str, User]
) -> None:
    execution = services.start_execution(
        actor=people["operator"],
        workflow=workflow,
        policy={
            "speculation": {"enabled": True},
            "hil": {"timeout_seconds": 7200},
            "ail": {"settings": {"password": "s3cr3t-word"}},
        },
    )
    hold = run_to_rest(execution.pk).holds.get()
    shown = bearer("reviewer").get(f"/api/v1/reviews/pending/{execution.pk}/").json()
    rows = {each["field"]: each for each in shown["policy_overrides"]}
    assert (rows["speculation.enabled"]["loosens"], rows["speculation.enabled"]["by"]) == (
        True,
        "operator",
    )
    assert "s3cr3t-word" not in str(rows)
    for url in (f"/runs/{execution.pk}/", f"/review/{execution.pk}/{hold.id}/"):
        page = session("reviewer").get(url)
        assert page.status_code == 200, url
        text = page.content.decode()
        assert "Policy changed for this run" in text
        assert "Precomputed results: Compute likely results" in text
        assert "2 h</span>" in text
        assert "s3cr3t-word" not in text


def test_the_floor_is_shown_to_people_who_start_runs(session: Session, catalogue: None) -> None:
    page = session("operator").get("/workflows/")
    assert "Policy floor of plans without a workflow" in page.content.decode()
    plan = json.dumps(plain_plan())
    page = session("reviewer").post("/plan/", {"action": "check", "plan": plan}, format="multipart")
    assert "Policy floor of plans without a workflow" in page.content.decode()


def test_a_token_without_the_scope_saves_no_looser_workflow(
    bearer: BearerFor, strict: Workflow, settings: Any
) -> None:
    """Otherwise it would loosen the workflow and then start it."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "policy_floor": {"four_eyes": True}}
    url = "/api/v1/workflows/"
    whole = {"title": "Echo", "plan": plain_plan(), "policy": {**STRICT, "four_eyes": False}}
    client = bearer("admin", ["read", "run", "admin"])
    attempts = {
        "change": client.patch(f"{url}echo/", {"policy": whole["policy"]}, format="json"),
        "empty": client.patch(f"{url}echo/", {"policy": {}}, format="json"),
        "replace": client.put(f"{url}echo/", {"name": "echo", **whole}, format="json"),
        "add": client.post(url, {"name": "other", **whole}, format="json"),
    }
    for name, answer in attempts.items():
        assert answer.status_code == 422, (name, answer.content)
        assert {each["code"] for each in answer.json()["errors"]} == {"policy_loosened"}, name
    strict.refresh_from_db()
    assert strict.policy == STRICT
    tighter = {**STRICT, "undo_seconds": 60}
    assert client.patch(f"{url}echo/", {"policy": tighter}, format="json").status_code == 200
    loosens = bearer("admin", ["read", "admin", "loosen"])
    answer = loosens.patch(f"{url}echo/", {"policy": {"four_eyes": False}}, format="json")
    assert answer.status_code == 200


def test_a_token_without_the_scope_publishes_no_rules(
    bearer: BearerFor, strict: Workflow, people: dict[str, User]
) -> None:
    """A rule skips reviews, so it loosens the policy of the runs that start later."""
    rules = [{"name": "all", "skip_when": "`true`"}]
    RuleVersion.objects.create(
        workflow=strict, number=1, rules=rules, author=people["operator"], author_name="operator"
    )
    url, body = "/api/v1/workflows/echo/rules/", {"republish": 1, "version": 1}
    refused = bearer("operator", ["decide"]).post(url, body, format="json")
    assert (refused.status_code, "loosen" in refused.json()["detail"]) == (403, True)
    assert strict.rule_versions.count() == 1
    allowed = bearer("operator", ["decide", "loosen"]).post(url, body, format="json")
    assert allowed.status_code == 201, allowed.content
