"""Secrets below `/api/v1/executions/`: marks for everybody, revealed on request, recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from reviews.decisions.masked_values import reveal_sentence
from reviews.models import SecretReveal
from tests.integration.reviews.conftest import MakeUser, Start, echo, only_hold
from tests.support.actors import actor_named
from workflows.engine.protocol.commands import AddMessage, UpdateState
from workflows.executions import services
from workflows.models import Execution, TaskAttempt
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SECRET, LISTED, SAID = "hunter2-hunter2", "AT611904300234573201", "sesame-open-please"
VALUE = {"city": "Graz", "password": SECRET, "iban": LISTED}
BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"


@pytest.fixture
def run(start: Start) -> Execution:
    """One secret in each payload: inputs, context, a task's inputs and output, a hold's payload."""
    execution = start(
        echo("first", VALUE),
        {**echo("second", VALUE, phase=BEFORE), "depends_on": ["first"]},
        inputs={"password": SECRET, "city": "Graz"},
        policy={"secrets": ["iban"]},
    )
    send(execution, UpdateState(updates={"api_token": SECRET, "iban": LISTED}))
    execution.refresh_from_db()
    return execution


def send(execution: Execution, command: Any) -> None:
    services.submit_command(
        execution_id=execution.pk, command=command, actor=actor_named("operator"), source="test"
    )


def client_of(user: User, *scopes: str) -> Client:
    _, text = create_token(user=user, name="t", scopes=scopes or ("read", "run", "decide"))
    return Client(headers={"authorization": f"Bearer {text}"})


def url(execution: Execution, rest: str = "") -> str:
    return f"/api/v1/executions/{execution.pk}/{rest}"


def test_every_reader_gets_masks_including_the_starter(
    run: Execution, operator: User, reviewer: User, auditor: User
) -> None:
    for user in (operator, reviewer, auditor):
        client = client_of(user)
        for rest in ("", "checkpoints/", "messages/", "events/", "decisions/"):
            answer = client.get(url(run, rest))
            assert answer.status_code == 200, answer.content
            text = answer.content.decode()
            assert SECRET not in text, (user, rest)
            assert LISTED not in text, (user, rest)
        body = client.get(url(run)).json()
        assert body["inputs"]["city"] == "Graz"
        assert body["tasks"][0]["output"]["city"] == "Graz"
        assert body["inputs"]["password"].startswith("[•")
    assert not SecretReveal.objects.exists()


def test_start_and_fork_responses_are_masked(run: Execution, operator: User) -> None:
    client = client_of(operator)
    plan = {"tasks": [echo("only", VALUE)]}
    body = {"plan": plan, "inputs": {"password": SECRET}}
    started = client.post("/api/v1/executions/", body, content_type="application/json")
    assert started.status_code == 201
    assert SECRET not in started.content.decode()
    checkpoint = {"checkpoint": str(run.checkpoints.earliest("layer").pk)}
    forked = client.post(url(run, "fork/"), checkpoint, content_type="application/json")
    assert forked.status_code == 201, forked.content
    assert SECRET not in forked.content.decode()
    # The fork itself works with the true values.
    assert Execution.objects.latest("pk").inputs["password"] == SECRET


def test_messages_and_errors_are_masked(start: Start, operator: User) -> None:
    fails = {
        "id": "bad",
        "type": "tool",
        "tool": "builtin.fail",
        "arguments": {"message": f"login failed: password={SAID}"},
    }
    execution, other = start(fails), start(echo("wait", phase=AFTER))
    send(other, AddMessage(role="user", content=f"use password={SAID}", author="operator"))
    client = client_of(operator)
    for address in (url(execution), url(other, "messages/"), "/api/v1/executions/"):
        text = client.get(address).content.decode()
        assert SAID not in text, address


def test_errors_and_logs_stay_masked_when_values_are_revealed(start: Start, auditor: User) -> None:
    """No reveal is recorded for them, so none happens."""
    fails = {
        "id": "bad",
        "type": "tool",
        "tool": "builtin.fail",
        "arguments": {"message": f"login failed: password={SAID}"},
    }
    execution = start(fails)
    TaskAttempt.objects.filter(execution=execution).update(logs=f"trying password={SAID}")
    body = client_of(auditor, "read", "decide").get(url(execution, "?reveal=true")).json()
    (task,) = body["tasks"]
    assert SAID in task["inputs"]["message"]
    assert "login failed" in task["error"]
    assert "login failed" in task["tries"][0]["error"]
    assert "trying" in task["logs"]
    texts = [body["error"], task["error"], task["logs"], *(each["error"] for each in task["tries"])]
    assert SAID not in json.dumps(texts)


def test_an_auditor_reveals_secrets_and_each_reveal_is_recorded(
    run: Execution, auditor: User
) -> None:
    answer = client_of(auditor, "read", "decide").get(url(run, "?reveal=true"))
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert body["inputs"]["password"] == SECRET
    assert body["tasks"][0]["output"] == VALUE
    assert body["holds"][0]["payload"]["value"] == VALUE
    assert body["masked"] == []
    kept = set(SecretReveal.objects.values_list("actor", "source", "place"))
    number, hold = run.pk, only_hold(run).pk
    places = {
        f"execution:{number}:inputs",
        f"execution:{number}:context",
        f"task:{number}:first:inputs",
        f"task:{number}:first:output",
        f"hold:{hold}",
    }
    assert {("auditor", "rest", place) for place in places} <= kept
    assert SECRET not in json.dumps(list(SecretReveal.objects.values("path", "place")))


@pytest.mark.parametrize(
    ("group", "scopes", "status"),
    [
        ("reviewer", ("read", "decide"), 200),
        ("reviewer", ("read",), 403),
        ("operator", ("read", "run", "decide"), 403),
        ("admin", ("read", "run", "decide"), 403),
    ],
)
def test_users_who_cannot_decide_reveal_nothing(
    run: Execution, make_user: MakeUser, group: str, scopes: tuple[str, ...], status: int
) -> None:
    user = make_user(f"some-{group}", group)
    answer = client_of(user, *scopes).get(url(run, "?reveal=true"))
    assert answer.status_code == status, answer.content
    assert (SECRET in answer.content.decode()) is (status == 200)
    assert SecretReveal.objects.exists() is (status == 200)


def test_one_mask_can_be_revealed_by_its_path(run: Execution, reviewer: User) -> None:
    client = client_of(reviewer)
    marks: list[dict[str, Any]] = client.get(url(run)).json()["masked"]
    assert len(marks) >= 6
    for each in marks:
        asked = {"place": each["place"], "number": each["number"]}
        answer = client.post("/api/v1/reviews/reveal/", asked, content_type="application/json")
        assert answer.status_code == 200, (each, answer.content)
        assert answer.json()["value"] in (SECRET, LISTED)
    assert SecretReveal.objects.count() == len(marks)
    of_inputs = SecretReveal.objects.get(place=f"execution:{run.pk}:inputs")
    assert "reviewer revealed password of the payload" in reveal_sentence(of_inputs)
