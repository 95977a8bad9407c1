"""Episodic memory: past decisions about a tool, for the planner and for agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from reviews.decisions.episodes import episodes, memory_of_tools
from tests.integration.reviews.authoring.test_planner import opened, signed_in
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.reviews.pages import review_path
from tests.support.pages import Page, open_page
from workflows.executions.jobs import run_to_rest
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
SECRET = "correct-horse-battery"


def decided(start: Start, user: User, value: Any, decision: str = "APPROVE", **more: Any) -> str:
    """A call of echo that a person decided and that ran, unless it was rejected; its run."""
    execution = start(echo("send", value, phase=BEFORE))
    decide(only_hold(execution), user, decision, **more)
    run_to_rest(execution.pk)
    return str(execution.pk)


def test_the_most_similar_call_comes_first_with_its_outcome(start: Start, reviewer: User) -> None:
    near = decided(
        start, reviewer, {"to": "ann@example.com", "text": "the invoice"}, "REJECT",
        comment="Never to ann",
    )  # fmt: skip
    far = decided(start, reviewer, ["something else"])
    asked = {"value": {"to": "ann@example.com", "text": "the new invoice"}}
    first, second = episodes(reviewer, tool="builtin.echo", arguments=asked, limit=5)
    assert (first.execution_id, first.decision, first.outcome) == (near, "REJECT", "not_run")
    assert first.comment == "Never to ann"
    assert (second.execution_id, second.decision, second.outcome) == (far, "APPROVE", "succeeded")
    assert first.similarity is not None
    assert second.similarity is not None
    assert 0.5 < first.similarity < 1
    assert second.similarity < first.similarity
    assert episodes(reviewer, tool="builtin.select", arguments=asked, limit=5) == []


def test_without_arguments_the_newest_come_first(start: Start, reviewer: User) -> None:
    runs = [decided(start, reviewer, value) for value in "abc"]
    found = episodes(reviewer, tool="builtin.echo", limit=2)
    assert [each.execution_id for each in found] == runs[:0:-1]
    assert {each.similarity for each in found} == {None}


def test_edited_paths_are_named_without_values(start: Start, reviewer: User) -> None:
    value = {"password": SECRET, "city": "Graz"}
    edits = {"value": {"password": "another-secret-1", "city": "Wien"}}
    decided(start, reviewer, value, edits=edits)
    (only,) = episodes(reviewer, tool="builtin.echo", limit=5)
    assert sorted(only.edited) == ["value.city", "value.password"]
    assert SECRET not in repr(only)
    assert "another-secret-1" not in repr(only)


def test_a_guessed_secret_is_no_more_similar_than_another(start: Start, reviewer: User) -> None:
    decided(start, reviewer, {"password": SECRET, "city": "Graz"})

    def similarity(guess: str) -> float | None:
        asked = {"value": {"password": guess, "city": "Graz"}}
        (only,) = episodes(reviewer, tool="builtin.echo", arguments=asked, limit=5)
        return only.similarity

    assert similarity(SECRET) == similarity("a-wrong-password")


def test_nobody_learns_of_runs_that_they_may_not_see(
    start: Start, reviewer: User, auditor: User, make_user: MakeUser
) -> None:
    stranger = make_user("stranger", "integrator")
    decided(start, reviewer, "a", "REJECT", comment="Secret plans")
    assert len(episodes(auditor, tool="builtin.echo", limit=5)) == 1
    assert episodes(stranger, tool="builtin.echo", arguments={"value": "a"}, limit=5) == []
    assert memory_of_tools(stranger, ["builtin.echo"]) == {}
    body = {"tool": "builtin.echo"}
    for user, count in ((auditor, 1), (stranger, 0)):
        _, text = create_token(user=user, name="t", scopes=["read"])
        client = Client(headers={"authorization": f"Bearer {text}"})
        answer = client.post("/api/v1/reviews/similar/", body, content_type="application/json")
        assert answer.status_code == 200
        assert len(answer.json()["results"]) == count
        assert ("Secret plans" in answer.content.decode()) is bool(count)


def test_a_token_without_the_scope_is_refused(auditor: User) -> None:
    _, text = create_token(user=auditor, name="t", scopes=["run"])
    client = Client(headers={"authorization": f"Bearer {text}"})
    body = {"tool": "builtin.echo"}
    answer = client.post("/api/v1/reviews/similar/", body, content_type="application/json")
    assert answer.status_code == 403


def test_the_memory_of_a_tool_counts_decisions(start: Start, reviewer: User) -> None:
    decided(start, reviewer, "a")
    decided(start, reviewer, "b", edits={"value": "c"})
    for comment in ("Not today", "Not this way"):
        decided(start, reviewer, "d", "REJECT", comment=comment)
    memory = memory_of_tools(reviewer, ["builtin.echo", "builtin.select", ""])
    assert list(memory) == ["builtin.echo"]
    found = memory["builtin.echo"]
    assert (found.approved, found.edited, found.rejected) == (2, 1, 2)
    assert found.comment == "Not this way"
    assert found.is_mostly_rejected


def test_a_suggestion_shows_what_people_decided(
    start: Start, auditor: User, make_user: MakeUser, reviewer: User
) -> None:
    for _ in range(2):
        decided(start, reviewer, "a", "REJECT", comment="Too noisy")
    asked = {"intent": "echo a value", "inputs": {"value": 1}}

    def suggested(user: User) -> dict[str, Any]:
        client = Client()
        client.force_login(user)
        answer = client.post("/api/v1/tools/suggest/", asked, content_type="application/json")
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        assert [reason["tool"] for reason in found["reasons"]] == ["builtin.echo"]
        return found

    found = suggested(auditor)
    (memory,) = found["decisions"]
    assert memory == {
        "tool": "builtin.echo", "approved": 0, "edited": 0, "rejected": 2, "comment": "Too noisy",
    }  # fmt: skip
    warning = "People rejected 2 of the last 2 calls of builtin.echo."
    assert warning in found["warnings"]
    other = suggested(make_user("stranger", "integrator"))
    assert other["decisions"] == []
    assert warning not in other["warnings"]


@pytest.mark.parametrize(("scope", "count"), [("read", 1), ("run", 0)])
def test_a_suggestion_shows_decisions_to_tokens_that_read(
    start: Start, auditor: User, reviewer: User, scope: str, count: int
) -> None:
    for _ in range(2):
        decided(start, reviewer, "a", "REJECT", comment="Too noisy")
    _, text = create_token(user=auditor, name="t", scopes=[scope])
    client = Client(headers={"authorization": f"Bearer {text}"})
    asked = {"intent": "echo a value", "inputs": {"value": 1}}
    answer = client.post("/api/v1/tools/suggest/", asked, content_type="application/json")
    assert answer.status_code == 200
    assert len(answer.json()["decisions"]) == count
    assert ("People rejected 2 of" in answer.content.decode()) is bool(count)


@pytest.fixture
def refused_echo(start: Start, reviewer: User) -> None:
    for _ in range(2):
        decided(start, reviewer, "a", "REJECT", comment="Too noisy")


REFUSED = "People refused most of the latest calls of 'builtin.echo'. Use it all the same?"


@pytest.mark.parametrize(("scopes", "asks"), [(["read", "run"], True), (["run"], False)])
def test_a_start_by_intent_asks_about_a_tool_that_people_refused(
    refused_echo: None, operator: User, scopes: list[str], asks: bool
) -> None:
    _, text = create_token(user=operator, name="t", scopes=scopes)
    client = Client(headers={"authorization": f"Bearer {text}"})
    asked = {"intent": "echo a value", "inputs": {"value": 1}}
    answer = client.post("/api/v1/executions/", asked, content_type="application/json")
    if not asks:  # the token may not read what people decided
        assert REFUSED not in answer.content.decode()
        return
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem == {"path": "plan.tasks[0]", "code": "unsure", "message": REFUSED}


@pytest.mark.parametrize(("reviewed", "by_page"), [(False, False), (True, False), (False, True)])
def test_a_replan_asks_about_a_tool_that_people_refused(
    refused_echo: None, start: Start, operator: User, reviewer: User, reviewed: bool, by_page: bool
) -> None:
    policy = {"per_layer_validation": True, "replan_review": reviewed}
    execution = start(echo("a"), echo("b", {"$from": "a"}), policy=policy, inputs={"value": 2})
    client = signed_in(operator)
    if by_page:
        sent = {"kind": "replan", "requirement": "echo a value"}
        answer = client.post(f"/runs/{execution.pk}/commands/", sent, follow=True)
        assert f"Unsure: {REFUSED}" in Page(answer).text
    else:
        command = {
            "kind": "replan",
            "new_requirement": "echo a value",
            "available_context": {"value": 1},
        }
        url = f"/api/v1/executions/{execution.pk}/commands/"
        answer = client.post(url, command, content_type="application/json")
        assert answer.json()["questions"] == [REFUSED]
    payload = execution.events.get(kind="plan_proposed" if reviewed else "plan_revised").payload
    (added,) = payload["added"]
    assert payload["why"][added]["questions"] == [REFUSED]
    run_to_rest(execution.pk)
    page = (
        open_page(reviewer, review_path(execution.holds.get(reason="replan_review")))
        if reviewed
        else open_page(operator, f"/runs/{execution.pk}/plan/2/")
    )
    assert REFUSED in page.text


def test_the_plan_page_shows_what_people_decided(
    start: Start, operator: User, reviewer: User
) -> None:
    for _ in range(2):
        decided(start, reviewer, "a", "REJECT", comment="Too noisy")
    page = opened(signed_in(operator)).press("add:builtin.echo")
    assert "Often rejected" in page.html
    assert "People approved 0 of the last 2 calls." in page.html
    assert "Too noisy" in page.html
