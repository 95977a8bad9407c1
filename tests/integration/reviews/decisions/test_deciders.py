"""Holds without a decider: refused for unknown groups, reported for empty ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from rest_framework.test import APIClient

from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.support.actors import actor_named
from tests.support.catalogue import stock_catalogue
from tests.support.groups import group_of
from tests.support.pages import Page, browser, open_page
from workflows.executions.definitions import save_workflow
from workflows.executions.services import parse_command, start_execution, submit_command
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db

BEFORE = "BEFORE_EXECUTION"
STEP = {"after_seconds": 60, "groups": ["typo"]}
WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"groups": ["legal", "typo"]}, {}, "plan.tasks[0].human_review.groups[1]"),
    ({"escalation": [STEP]}, {}, "plan.tasks[0].human_review.escalation[0].groups[0]"),
    ({}, {"hil": {"enabled": True, "groups": ["typo"]}}, "policy.hil.groups[0]"),
    ({}, {"replan_review": {"enabled": True, "groups": ["typo"]}},
     "policy.replan_review.groups[0]"),
    ({}, {"escalation": [STEP]}, "policy.escalation[0].groups[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("review", "policy", "path"), WRONG)
def test_a_group_that_does_not_exist_is_refused(
    operator: User, review: dict[str, Any], policy: dict[str, Any], path: str
) -> None:
    stock_catalogue()
    plan = {"tasks": [echo("a", phase=BEFORE, **review)]}
    with pytest.raises(InvalidRequest) as started:
        start_execution(actor=operator, plan=plan, policy=policy)
    with pytest.raises(InvalidRequest) as saved:
        save_workflow(
            actor=operator, fields={"name": "w", "title": "W", "plan": plan, "policy": policy}
        )
    for caught in (started, saved):
        assert [(each.path, each.code) for each in caught.value.problems] == [
            (path, "unknown_group")
        ]
    assert not Execution.objects.exists()


NON_DECIDING_ROLES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"groups": ["operator"]}, {}, "plan.tasks[0].human_review.groups"),
    ({}, {"hil": {"enabled": True, "groups": ["auditor", "integrator"]}}, "policy.hil.groups"),
    ({}, {"replan_review": {"enabled": True, "groups": ["auditor"]}},
     "policy.replan_review.groups"),
    ({"escalation": [{"after_seconds": 60, "groups": ["operator"]}]}, {},
     "plan.tasks[0].human_review.escalation[0].groups"),
    ({}, {"escalation": [{"after_seconds": 60, "groups": ["auditor"], "tell": ["ann"]}]},
     "policy.escalation[0].groups"),
    ({"groups": []}, {}, "plan.tasks[0].human_review.groups"),
    # Its holds for permissions ask these groups all the same.
    ({"groups": [], "enabled": False}, {}, "plan.tasks[0].human_review.groups"),
    ({}, {"hil": {"enabled": True, "groups": []}}, "policy.hil.groups"),
    ({}, {"replan_review": {"enabled": True, "groups": []}}, "policy.replan_review.groups"),
]  # fmt: skip


@pytest.mark.parametrize(("review", "policy", "path"), NON_DECIDING_ROLES)
def test_groups_that_cannot_decide_are_refused(
    operator: User, review: dict[str, Any], policy: dict[str, Any], path: str
) -> None:
    stock_catalogue()
    client = APIClient()
    client.force_authenticate(operator)
    body = {"plan": {"tasks": [echo("a", phase=BEFORE, **review)]}, "policy": policy}
    answer = client.post("/api/v1/executions/", body, format="json")
    assert answer.status_code == 422, answer.content
    with pytest.raises(InvalidRequest) as caught:
        save_workflow(actor=operator, fields={"name": "w", "title": "W", **body})
    assert [(each.path, each.code) for each in caught.value.problems] == [
        (path, "no_deciding_group")
    ]
    assert not Execution.objects.exists()


def test_a_viewing_group_beside_a_deciding_group_is_allowed(operator: User) -> None:
    stock_catalogue()
    step = {"after_seconds": 60, "groups": ["operator", "admin"]}
    told = {"after_seconds": 90, "tell": ["ann"]}
    groups = ["reviewer", "auditor"]
    plan = {"tasks": [echo("a", phase=BEFORE, groups=groups, escalation=[step, told])]}
    assert start_execution(actor=operator, plan=plan).pk


def test_an_injected_task_names_groups_that_exist(start: Start) -> None:
    execution = start(echo("a", phase=BEFORE))
    task = echo("b", phase=BEFORE, groups=["typo"])
    with pytest.raises(InvalidRequest, match="no group"):
        submit_command(
            execution_id=execution.pk,
            command=parse_command({"kind": "inject_task", "task": task}),
            actor=actor_named("operator"),
            source="test",
        )


def test_an_override_without_groups_is_refused(operator: User) -> None:
    stock_catalogue()
    fields = {"name": "w", "title": "W", "plan": {"tasks": [echo("a")]}}
    signed = {"hil": {"enabled": True}}
    workflow = save_workflow(actor=operator, fields={**fields, "policy": signed})
    with pytest.raises(InvalidRequest) as caught:
        start_execution(actor=operator, workflow=workflow, policy={"hil": {"groups": []}})
    assert [each.path for each in caught.value.problems] == ["policy.hil.groups"]


NOBODY = "The group 'legal' has no active member who may decide."
EMPTY = {"tasks": [echo("a", phase=BEFORE, groups=["legal", "reviewer"])]}


@pytest.fixture
def admin(make_user: MakeUser) -> User:
    return make_user("root", "admin", is_staff=True)


def test_an_empty_group_is_a_warning(operator: User, reviewer: User, make_user: MakeUser) -> None:
    stock_catalogue()
    make_user("watcher", "legal", "auditor")
    make_user("gone", "legal", is_active=False)
    client = APIClient()
    client.force_authenticate(operator)
    answer = client.post("/api/v1/executions/", {"plan": EMPTY}, format="json")
    assert answer.status_code == 201
    assert answer.json()["warnings"] == [NOBODY]
    make_user("lawyer", "legal")
    answer = client.post("/api/v1/executions/", {"plan": EMPTY}, format="json")
    assert "warnings" not in answer.json()


def test_saving_a_workflow_over_rest_warns(admin: User, reviewer: User) -> None:
    stock_catalogue()
    client = APIClient()
    client.force_authenticate(admin)
    body = {"name": "w", "title": "W", "plan": EMPTY}
    answer = client.post("/api/v1/workflows/", body, format="json")
    assert (answer.status_code, answer.json()["warnings"]) == (201, [NOBODY])
    where = "/api/v1/workflows/w/"
    tag = {"If-Match": answer.headers.get("ETag") or client.get(where).headers["ETag"]}
    answer = client.patch(where, {"title": "X"}, format="json", headers=tag)
    assert (answer.status_code, answer.json()["warnings"]) == (200, [NOBODY])
    wrong = {"tasks": [echo("a", phase=BEFORE, groups=["typo"])]}
    tag = {"If-Match": answer.headers["ETag"]}
    answer = client.patch(where, {"plan": wrong}, format="json", headers=tag)
    assert answer.status_code == 422
    assert [each["path"] for each in answer.json()["errors"]] == [
        "plan.tasks[0].human_review.groups[0]"
    ]
    assert "warnings" not in client.get(where).json()


def test_the_pages_warn(admin: User, reviewer: User) -> None:
    stock_catalogue()
    client = browser(admin)
    form = {"title": "W", "plan": json.dumps(EMPTY), "policy": "{}", "inputs": "{}"}
    for action in ("start", "save"):
        answer = client.post(reverse("reviews:planner"), {**form, "action": action}, follow=True)
        assert answer.redirect_chain, answer.content.decode()
        assert NOBODY in Page(answer).text, action
    started = client.post(reverse("reviews:start", args=(Workflow.objects.get().pk,)), follow=True)
    assert NOBODY in Page(started).text


def shown(user: User, execution: Execution) -> tuple[bool, bool]:
    """What REST says of the hold, and whether the run's page says that nobody can approve it."""
    client = APIClient()
    client.force_authenticate(user)
    (hold,) = client.get(f"/api/v1/reviews/pending/{execution.pk}/").json()["holds"]
    page = open_page(user, f"/runs/{execution.pk}/")
    return hold["cannot_be_approved"], "Nobody can approve this." in page.text


def test_a_hold_that_nobody_can_approve_is_shown_to_operators(
    start: Start, operator: User, make_user: MakeUser
) -> None:
    execution = start(echo("a", phase=BEFORE, groups=["legal"]))
    assert shown(operator, execution) == (True, True)
    make_user("watcher", "legal", "auditor")
    make_user("gone", "legal", is_active=False)
    assert shown(operator, execution) == (True, True)
    make_user("lawyer", "legal")
    assert shown(operator, execution) == (False, False)


def test_a_quorum_needs_as_many_people(
    start: Start, operator: User, make_user: MakeUser, reviewer: User
) -> None:
    execution = start(echo("a", phase=BEFORE, quorum=2))
    assert shown(operator, execution) == (True, True)
    make_user("second", "reviewer")
    assert shown(operator, execution) == (False, False)


def test_the_starter_does_not_count(start: Start, operator: User, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE), actor=reviewer)
    assert only_hold(execution).groups == ["reviewer"]
    assert shown(operator, execution) == (True, True)


def test_each_hold_of_a_layer_counts_its_own_people(
    start: Start, operator: User, make_user: MakeUser, reviewer: User
) -> None:
    """One statement counts for all of them."""
    make_user("lawyer", "legal")
    make_user("both", "legal", "reviewer")
    group_of("nobody")
    execution = start(
        echo("empty", phase=BEFORE, groups=["nobody"]),
        echo("three", phase=BEFORE, groups=["legal", "reviewer"], quorum=3),
        echo("four", phase=BEFORE, groups=["legal", "reviewer"], quorum=4),
        echo("two", phase=BEFORE, groups=["legal"], quorum=2),
    )
    client = APIClient()
    client.force_authenticate(operator)
    holds = client.get(f"/api/v1/reviews/pending/{execution.pk}/").json()["holds"]
    assert {each["node_id"]: each["cannot_be_approved"] for each in holds} == {
        "empty": True,
        "three": False,
        "four": True,
        "two": False,
    }


@pytest.mark.parametrize("url", ["/api/v1/reviews/pending/{}/", "/runs/{}/"])
def test_the_number_of_statements_is_constant(start: Start, reviewer: User, url: str) -> None:
    client = APIClient() if "api" in url else Client()
    client.force_login(reviewer)

    def statements(count: int) -> int:
        execution = start(*(echo(f"t{number}", phase=BEFORE) for number in range(count)))
        client.get(url.format(execution.pk))  # caches of this process
        with CaptureQueriesContext(connection) as seen:
            assert client.get(url.format(execution.pk)).status_code == 200
        return len(seen)

    assert statements(1) == statements(12)
