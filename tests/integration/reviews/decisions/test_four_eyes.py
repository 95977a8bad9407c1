"""Four eyes: nobody who shaped a run approves in it, over any interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from django.db import DatabaseError, transaction
from rest_framework.test import APIClient

from reviews.decisions.rights import shapers_of
from reviews.notifications.recipients import EligibleDeciders
from reviews.queue import claims
from reviews.queue.selectors import Viewer
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.integration.reviews.decisions.test_plan_review import folder, listing
from workflows.executions.jobs import run_to_rest
from workflows.models import Checkpoint, Execution, Hold, Shaper

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

assert folder  # a fixture
BEFORE = "BEFORE_EXECUTION"
#: A person who may steer every run and decides as a reviewer.
Both = Callable[..., APIClient]


def client_of(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


@pytest.fixture
def both(make_user: MakeUser) -> User:
    return make_user("both", "operator", "reviewer")


def command(user: User, execution: Execution, **body: Any) -> Any:
    url = f"/api/v1/executions/{execution.pk}/commands/"
    answer = client_of(user).post(url, body, format="json")
    assert answer.status_code in (200, 202), answer.json()
    return answer.json()


def resume(user: User, hold: Hold, decision: str = "APPROVE", **more: Any) -> Any:
    version = Execution.objects.get(pk=hold.execution_id).version
    body = {
        "execution_id": hold.execution_id,
        "hold_id": hold.id,
        "decision": decision,
        "version": version,
        **more,
    }
    return client_of(user).post("/api/v1/reviews/resume/", body, format="json")


def refused(user: User, hold: Hold, words: str) -> None:
    """Over REST, in bulk and in every list the user may not approve, and may reject."""
    answer = resume(user, hold)
    assert (answer.status_code, answer.json()["reason"]) == (403, "four_eyes")
    assert words in answer.json()["detail"]
    version = Execution.objects.get(pk=hold.execution_id).version
    chosen = {"action": "approve", "holds": [{"hold_id": hold.id, "version": version}]}
    bulk = client_of(user).post("/api/v1/reviews/bulk/", chosen, format="json")
    (outcome,) = bulk.json()["results"]
    assert (outcome["done"], outcome["code"]) == (False, "not_allowed")
    mine = client_of(user).get("/api/v1/reviews/pending/?tab=me").json()["results"]
    assert hold.id not in [each["hold_id"] for each in mine]
    assert not Viewer(user).counted("me").filter(hold_id=hold.id).exists()
    shown = client_of(user).get(f"/api/v1/reviews/pending/{hold.execution_id}/").json()
    rights = {each["hold_id"]: each["right"] for each in shown["holds"]}
    assert (rights[hold.id]["approve"], rights[hold.id]["reject"]) == (False, True)
    assert user.get_username() not in claims.candidates(hold)
    assert user not in EligibleDeciders(hold.groups, [hold]).for_hold(hold)


def approved(user: User, hold: Hold) -> None:
    mine = client_of(user).get("/api/v1/reviews/pending/?tab=me").json()["results"]
    assert hold.id in [each["hold_id"] for each in mine]
    assert Viewer(user).counted("me").filter(hold_id=hold.id).exists()
    assert resume(user, hold).status_code == 200


def gate(name: str = "gate", **more: Any) -> dict[str, Any]:
    return {**echo(name, {"$from": "context"}, phase=BEFORE), **more}


COMMANDS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "update_state", "updates": {"amount": 9}}, "changed the context"),
    ({"kind": "inject_task", "task": echo("more")}, "changed the plan"),
    ({"kind": "modify_args", "task_id": "last", "arguments": {"value": 2}}, "changed the plan"),
    ({"kind": "skip_layer", "layer": 1}, "skipped a layer"),
]


@pytest.mark.parametrize(("body", "words"), COMMANDS, ids=[each[0]["kind"] for each in COMMANDS])
def test_the_sender_of_a_command_cannot_approve(
    start: Start, both: User, reviewer: User, body: dict[str, Any], words: str
) -> None:
    execution = start(gate(), echo("last", 1) | {"depends_on": ["gate"]})
    hold = only_hold(execution)
    command(both, execution, **body)
    refused(both, hold, words)
    approved(reviewer, hold)


def test_no_editor_can_approve(start: Start, make_user: MakeUser, reviewer: User) -> None:
    people = [make_user(name, "operator", "reviewer") for name in ("ann", "bob", "cy")]
    execution = start(gate(), echo("last", 1) | {"depends_on": ["gate"]})
    for number, person in enumerate(people):
        command(person, execution, kind="modify_args", task_id="last", arguments={"value": number})
    hold = only_hold(execution)
    for person in people:
        refused(person, hold, "changed the plan")
    approved(reviewer, hold)


def test_the_editor_of_an_earlier_task_cannot_approve(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    second = echo("second", {"$from": "first"}, phase=BEFORE)
    execution = start(echo("first", "text", phase=BEFORE), second)
    assert resume(reviewer, only_hold(execution), edits={"value": "mine"}).status_code == 200
    hold = only_hold(run_to_rest(execution.pk))
    refused(reviewer, hold, "edited a step")
    approved(reviewer2, hold)


def test_an_edit_does_not_affect_holds_that_were_open(start: Start, reviewer: User) -> None:
    """Two holds of one boundary: the second was shown as it is before the first was edited."""
    execution = start(echo("a", "text", phase=BEFORE), echo("b", "text", phase=BEFORE))
    first, second = execution.holds.order_by("opened_seq")
    assert resume(reviewer, first, edits={"value": "mine"}).status_code == 200
    approved(reviewer, second)


def test_an_approval_without_edits_shapes_nothing(start: Start, reviewer: User) -> None:
    second = echo("second", {"$from": "first"}, phase=BEFORE)
    execution = start(echo("first", "text", phase=BEFORE), second)
    assert resume(reviewer, only_hold(execution)).status_code == 200
    approved(reviewer, only_hold(run_to_rest(execution.pk)))


def test_a_withdrawn_edit_shapes_nothing(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("first", "text", phase=BEFORE)))
    edited = resume(reviewer, hold, edits={"value": "mine"}, undo_seconds=60)
    assert edited.status_code == 200
    back = client_of(reviewer).post(f"/api/v1/reviews/holds/{hold.id}/withdraw/", {}, format="json")
    assert back.status_code == 200
    approved(reviewer, hold)


def test_the_requester_of_an_unreviewed_replan_cannot_approve(
    start: Start, folder: Any, both: User, reviewer: User
) -> None:
    policy = {"per_layer_validation": True}
    execution = start(listing(), gate(depends_on=["list"]), policy=policy)
    command(both, execution, kind="replan", new_requirement="parse XML files")
    execution = run_to_rest(execution.pk)
    assert execution.revision == 2
    hold = only_hold(execution)
    refused(both, hold, "changed the plan")
    approved(reviewer, hold)


def test_approving_a_plan_change_does_not_shape_the_run(
    start: Start, folder: Any, both: User, operator: User, reviewer: User
) -> None:
    policy = {"per_layer_validation": True, "replan_review": True}
    execution = start(listing(), gate(depends_on=["list"]), policy=policy)
    command(
        both,
        execution,
        kind="replan",
        new_requirement="parse XML files",
        available_context={"amount": 1},
    )
    hold = only_hold(run_to_rest(execution.pk))
    refused(both, hold, "asked for this change")
    approved(reviewer, hold)
    execution = run_to_rest(execution.pk)
    assert execution.context == {"amount": 1}
    assert shapers_of(only_hold(execution)) == {operator.pk, both.pk}
    hold = only_hold(execution)
    refused(both, hold, "asked for this change")
    approved(reviewer, hold)


def test_shapers_count_along_a_chain_of_forks(
    start: Start, make_user: MakeUser, reviewer: User
) -> None:
    """The first starter, who changed the first run, and who made the fork between."""
    first, shaper, between, last = (
        make_user(name, "operator", "reviewer") for name in ("first", "shaper", "between", "last")
    )
    middle = echo("middle") | {"depends_on": ["begin"]}
    execution = start(echo("begin"), middle, gate(depends_on=["middle"]), actor=first)
    command(shaper, execution, kind="update_state", updates={"amount": 9})
    for forker in (between, last):
        checkpoint = Checkpoint.objects.filter(execution=execution).earliest("layer")
        url = f"/api/v1/executions/{execution.pk}/fork/"
        made = client_of(forker).post(url, {"checkpoint": str(checkpoint.pk)}, format="json")
        assert made.status_code == 201, made.json()
        execution = run_to_rest(int(made.json()["id"]))
    hold = only_hold(execution)
    for person in (first, shaper, between):
        refused(person, hold, "the run that this one is a fork of")
    refused(last, hold, "You started this run")
    approved(reviewer, hold)


def test_without_four_eyes_shapers_approve(start: Start, both: User) -> None:
    execution = start(gate(), policy={"four_eyes": False})
    command(both, execution, kind="update_state", updates={"amount": 9})
    approved(both, only_hold(execution))


def test_shapers_are_append_only(start: Start, operator: User) -> None:
    execution = start(gate())
    rows = Shaper.objects.filter(execution=execution)
    assert [(each.user, each.way) for each in rows] == [(operator, "start")]
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        rows.delete()


AGENT = {"ail": {"enabled": True, "decision_points": "manual"}}


def say(user: User, execution: Execution, **more: Any) -> None:
    url = f"/api/v1/executions/{execution.pk}/messages/"
    answer = client_of(user).post(url, {"content": "Add a task.", **more}, format="json")
    assert answer.status_code == 200, answer.json()


@pytest.mark.parametrize("ask_agent", [False, True])
def test_the_author_of_a_message_to_the_agent_cannot_approve(
    start: Start, both: User, reviewer: User, *, ask_agent: bool
) -> None:
    execution = start(gate(), policy=AGENT)
    say(both, execution, ask_agent=ask_agent)
    hold = only_hold(execution)
    refused(both, hold, "wrote to the agent")
    approved(reviewer, hold)


def test_a_message_without_a_deciding_agent_shapes_nothing(start: Start, both: User) -> None:
    execution = start(gate())
    say(both, execution)
    approved(both, only_hold(execution))


def test_requesting_changes_is_no_message_to_the_agent(start: Start, reviewer: User) -> None:
    execution = start(echo("first", "text", phase="AFTER_EXECUTION"), policy=AGENT)
    hold = only_hold(execution)
    assert resume(reviewer, hold, "REQUEST_CHANGES", comment="Shorter.").status_code == 200
    approved(reviewer, only_hold(run_to_rest(execution.pk)))


def test_messages_that_a_fork_copies_shape_nothing(
    start: Start, make_user: MakeUser, reviewer: User
) -> None:
    """The words of a request for changes stand alone in the fork, without the decision."""
    forker, writer = (make_user(name, "operator", "reviewer") for name in ("forker", "writer"))
    execution = start(
        echo("first", "text", phase="AFTER_EXECUTION"), gate(depends_on=["first"]), policy=AGENT
    )
    asked = resume(reviewer, only_hold(execution), "REQUEST_CHANGES", comment="Shorter.")
    assert asked.status_code == 200
    assert resume(reviewer, only_hold(run_to_rest(execution.pk))).status_code == 200
    run_to_rest(execution.pk)
    checkpoint = Checkpoint.objects.filter(execution=execution).latest("layer")
    url = f"/api/v1/executions/{execution.pk}/fork/"
    made = client_of(forker).post(url, {"checkpoint": str(checkpoint.pk)}, format="json")
    assert made.status_code == 201, made.json()
    fork = Execution.objects.get(pk=int(made.json()["id"]))
    assert fork.events.filter(kind="message_added", actor="reviewer").exists()
    say(writer, fork)
    hold = only_hold(run_to_rest(fork.pk))
    refused(writer, hold, "wrote to the agent")
    approved(reviewer, hold)


def test_context_sent_after_a_rejected_plan_change_shapes_the_run(
    start: Start, folder: Any, both: User, make_user: MakeUser
) -> None:
    policy = {"per_layer_validation": True, "replan_review": True}
    asker = make_user("asker", "operator")
    execution = start(listing(), gate(depends_on=["list"]), policy=policy)
    command(asker, execution, kind="replan", new_requirement="parse XML files")
    hold = only_hold(run_to_rest(execution.pk))
    assert resume(both, hold, "REJECT").status_code == 200
    command(both, execution, kind="update_state", updates={"amount": 9})
    rejected = execution.events.get(kind="hold_decided", payload__reason="replan_review")
    assert execution.events.get(kind="context_updated").seq == rejected.seq + 1
    assert both.pk in shapers_of(only_hold(run_to_rest(execution.pk)))
