"""Going on from a checkpoint in a new run, and two runs side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.support.actors import actor_named
from tests.support.pages import Page, browser, open_page
from tests.support.starters import change_starter
from workflows.engine.protocol.commands import Abort, UpdateState
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import fork_execution, start_execution, submit_command
from workflows.models import Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "title": "Text", "minLength": 3},
        "note": {"type": "string"},
    },
    "additionalProperties": False,
}


def source(name: str, select: str = "@") -> dict[str, Any]:
    return {"$from": name, "select": select}


PLAN = [
    echo("first"),
    echo("second", [source("first"), source("inputs", "text")], phase="BEFORE_EXECUTION"),
    echo("third", source("second")),
]


@pytest.fixture
def paused(start: Start, operator: User) -> Execution:
    """A run that waits before its second task."""
    start(echo("warm"))
    workflow = Workflow.objects.create(
        name="greet", title="Greeting", plan={"tasks": PLAN}, inputs_schema=SCHEMA
    )
    execution = start_execution(
        actor=operator, workflow=workflow, inputs={"text": "hello", "note": "old"}
    )
    return run_to_rest(execution.pk)


def command(execution: Execution, wanted: Any) -> None:
    submit_command(
        execution_id=execution.pk, command=wanted, actor=actor_named("operator"), source="test"
    )
    execution.refresh_from_db()


def run_page(user: User, execution: Execution) -> Page:
    return open_page(user, f"/runs/{execution.pk}/")


def newest(execution: Execution) -> Execution:
    return Execution.objects.filter(parent=execution).latest("id")


# --- where it is offered --------------------------------------------------------------------------


def test_a_checkpoint_offers_a_fork_to_operators(
    paused: Execution, operator: User, reviewer: User
) -> None:
    path = f"/runs/{paused.pk}/fork/0/"
    assert path in run_page(operator, paused).links
    assert path not in run_page(reviewer, paused).links
    open_page(reviewer, path, status=403)
    assert browser(reviewer).post(path, {}).status_code == 403
    assert not Execution.objects.filter(parent=paused).exists()


def test_a_finished_run_offers_its_last_useful_checkpoint(
    paused: Execution, operator: User, reviewer: User
) -> None:
    offer = "Fork from here… after layer 2"
    assert offer not in run_page(operator, paused).names("link")
    decide(only_hold(paused), reviewer)
    run_to_rest(paused.pk)
    page = run_page(operator, paused)
    assert offer in page.names("link")
    assert f"/runs/{paused.pk}/fork/1/" in page.links
    # Behind the last layer nothing is left to run.
    assert f"/runs/{paused.pk}/fork/2/" not in page.links


def test_unknown_checkpoints_are_404(
    paused: Execution, operator: User, make_user: MakeUser
) -> None:
    open_page(operator, f"/runs/{paused.pk}/fork/1/", status=404)
    open_page(operator, f"/runs/{paused.pk}/fork/{2**40}/", status=404)
    open_page(make_user("stranger", "other"), f"/runs/{paused.pk}/fork/0/", status=404)


# --- the page -------------------------------------------------------------------------------------


def test_the_form_lists_reused_results_and_repeated_reviews(
    paused: Execution, operator: User
) -> None:
    answer = browser(operator).get(f"/runs/{paused.pk}/fork/0/")
    fork = answer.context["fork"]
    assert (fork["layer"], fork["layers"]) == (1, 3)
    assert [task["id"] for task in fork["taken"]] == ["first"]
    assert (fork["anew"], fork["reviews"]) == ("second, third", ("second, before it runs",))
    page = Page(answer)
    assert "second, before it runs" in page.text
    assert "do not run again" in page.text
    assert page.fields("form.fork")["v:/text"] == "hello"


def test_edited_inputs_and_context_make_a_new_run(paused: Execution, operator: User) -> None:
    command(paused, UpdateState(updates={"word": "one"}))
    command(paused, Abort(reason="wrong text"))
    form = {"mode": "form", "v:/text": "good day", "v:/note": "old", "context_json": '{"k": [1]}'}
    answer = browser(operator).post(f"/runs/{paused.pk}/fork/0/", form)
    fork = newest(paused)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/runs/{fork.pk}/")
    assert fork.inputs == {"text": "good day", "note": "old"}
    assert (fork.context, fork.created_by) == ({"k": [1]}, operator)
    fork = run_to_rest(fork.pk)
    # The hold that the old run never passed opens anew.
    assert only_hold(fork).payload == {"value": ["text", "good day"]}
    assert paused.holds.get().status == "CLOSED"


def test_keys_omitted_from_the_json_are_removed(paused: Execution, operator: User) -> None:
    page = open_page(operator, f"/runs/{paused.pk}/fork/0/?as=json")
    assert "inputs_json" in page.fields("form.fork")
    form = {"mode": "json", "inputs_json": '{"text": "only this"}', "context_json": "{}"}
    assert browser(operator).post(f"/runs/{paused.pk}/fork/0/", form).status_code == 303
    assert newest(paused).inputs == {"text": "only this"}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"mode": "form", "v:/text": "x", "context_json": "{}"}, "at least 3"),
        ({"mode": "json", "inputs_json": "{", "context_json": "{}"}, "inputs"),
        ({"mode": "json", "inputs_json": "[1]", "context_json": "{}"}, "must be a JSON object"),
        ({"mode": "json", "inputs_json": "{}", "context_json": "{}"}, "required"),
        ({"mode": "form", "v:/text": "abc", "context_json": "no json"}, "context"),
        ({"mode": "form", "v:/text": "abc", "context_json": '{"a": 1, "a": 2}'}, "context"),
    ],
)
def test_invalid_input_is_422_and_preserved(
    paused: Execution, operator: User, form: dict[str, str], words: str
) -> None:
    answer = browser(operator).post(f"/runs/{paused.pk}/fork/0/", form)
    page = Page(answer)
    assert answer.status_code == 422
    (alert,) = page.names("alert")
    assert alert.startswith("The run was not started.")
    assert words in alert
    assert page.fields("form.fork")["context_json"] == form["context_json"]
    assert not Execution.objects.filter(parent=paused).exists()


def test_an_ad_hoc_plan_is_edited_as_json(start: Start, operator: User) -> None:
    execution = start(echo("a", phase="AFTER_EXECUTION"), echo("b", source("a")))
    assert execution.checkpoints.count() == 0
    command(execution, Abort(reason="no"))
    open_page(operator, f"/runs/{execution.pk}/fork/0/", status=404)
    done = start(echo("a"), echo("b", source("a")), inputs={"n": 1})
    page = open_page(operator, f"/runs/{done.pk}/fork/0/")
    assert "inputs_json" in page.fields("form.fork")
    assert "Edit as a form" not in page.names("link")


# --- both ways ------------------------------------------------------------------------------------


@pytest.fixture
def fork(paused: Execution, operator: User) -> Execution:
    checkpoint = paused.checkpoints.get(layer=0)
    made = fork_execution(
        execution=paused, checkpoint=checkpoint, actor=operator, inputs={"text": "good day"}
    )
    return run_to_rest(made.pk)


def test_parent_and_fork_link_to_each_other(
    paused: Execution, fork: Execution, operator: User
) -> None:
    parent_page, fork_page = run_page(operator, paused), run_page(operator, fork)
    assert f"forked from run {paused.pk} after layer 1" in fork_page.text
    assert f"/runs/{paused.pk}/" in fork_page.links
    assert f"/runs/{fork.pk}/" in parent_page.links


def test_an_invisible_parent_is_only_a_number(
    paused: Execution, fork: Execution, make_user: MakeUser
) -> None:
    owner = make_user("owner", "integrator")
    change_starter(fork, owner)
    page = run_page(owner, fork)
    assert f"forked from run {paused.pk}" in page.text
    assert not [each for each in page.links if each.startswith(f"/runs/{paused.pk}/")]
