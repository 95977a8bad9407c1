"""The run page: conversation, queued messages, running tasks, links into the timeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.integration.reviews.conftest import MakeUser, Start, echo
from tests.support.actors import actor_named
from tests.support.pages import HTMX, Page, browser, open_page
from workflows.engine.protocol.commands import AddMessage
from workflows.engine.protocol.events import ExecutionStarted, LayerStarted
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution, submit_command
from workflows.journal.writer import DjangoJournal, JournalRun
from workflows.models import Execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"


@pytest.fixture
def paused(start: Start) -> Execution:
    return start(echo("a", phase=BEFORE), echo("b", {"$from": "a"}))


@pytest.fixture
def fresh(start: Start, operator: User) -> Execution:
    """Started, and no worker has begun."""
    start(echo("warm"))
    return start_execution(actor=operator, plan={"tasks": [echo("a")]})


@contextmanager
def at_work(execution: Execution) -> Iterator[JournalRun]:
    """A worker holds the execution."""
    with DjangoJournal(owner="another worker").claim(str(execution.pk)) as run:
        assert run is not None
        yield run


def run_page(user: User, execution: Execution) -> Page:
    return open_page(user, f"/runs/{execution.pk}/")


def say(user: User, execution: Execution, text: str) -> str:
    form = {"kind": "message", "text": text}
    answer = browser(user).post(f"/runs/{execution.pk}/commands/", form)
    assert answer.status_code == 303
    return str(answer.headers["Location"])


# --- conversation ---------------------------------------------------------------------------------


def test_the_timeline_shows_messages_of_people_and_agents(
    paused: Execution, operator: User
) -> None:
    place = say(operator, paused, "mind the title")
    said = AddMessage(role="assistant", content="I will.", author="agent:rules")
    submit_command(
        execution_id=paused.pk, command=said, actor=actor_named("agent:rules"), source="agent"
    )
    answer = browser(operator).get(f"/runs/{paused.pk}/")
    entries = [each for group in answer.context["run"]["groups"] for each in group.entries]
    said = [each for each in entries if each["kind"] == "message"]
    assert [(each["actor"], each["role"]) for each in said] == [
        ("operator", "person"),
        ("rules", "agent"),
    ]
    page, entry = Page(answer), place.partition("#")[2]
    (line,) = page.texts(f"#{entry}")
    assert "mind the title" in line
    assert "I will." in page.text


def test_participants_may_write_and_auditors_only_read(
    paused: Execution, reviewer: User, auditor: User, make_user: MakeUser
) -> None:
    say(reviewer, paused, "looking at it")
    assert "Message to the run" in run_page(reviewer, paused).names("textbox")
    assert "Abort the run" not in run_page(reviewer, paused).names("button")
    assert "looking at it" in run_page(auditor, paused).text
    assert "Message to the run" not in run_page(auditor, paused).names("textbox")
    form = {"kind": "message", "text": "psst"}
    path = f"/runs/{paused.pk}/commands/"
    assert browser(auditor).post(path, form).status_code == 403
    assert browser(make_user("stranger", "other")).post(path, form).status_code == 404
    assert "psst" not in run_page(auditor, paused).html


def test_a_message_during_a_layer_waits_for_its_end(fresh: Execution, operator: User) -> None:
    with at_work(fresh):
        assert say(operator, fresh, "be quick").endswith("#queued")
        (queued,) = run_page(operator, fresh).texts("#queued")
        assert "be quick" in queued
        assert "will be applied after this layer" in queued
        browser(operator).post(
            f"/runs/{fresh.pk}/commands/", {"kind": "abort", "reason": "too slow"}
        )
        (queued,) = run_page(operator, fresh).texts("#queued")
        assert "abort: too slow" in queued
        assert "running tasks are being stopped" in queued
    done = run_to_rest(fresh.pk)
    page = run_page(operator, done)
    assert done.status == "ABORTED"
    assert page.texts("#queued") == []
    assert "be quick" in page.text
    assert "operator aborted the run: too slow" in page.text


# --- what runs ------------------------------------------------------------------------------------


def running(user: User, execution: Execution) -> list[str]:
    tasks = browser(user).get(f"/runs/{execution.pk}/").context["run"]["tasks"]
    return [task["id"] for task in tasks if task["since"]]


def test_running_tasks_have_a_clock(fresh: Execution, operator: User) -> None:
    assert running(operator, fresh) == []
    with at_work(fresh) as run:
        run.record(ExecutionStarted(total_layers=1, total_tasks=1))
        run.record(LayerStarted(layer=0, tasks=("a",), skips={}))
        run.commit()
        assert running(operator, fresh) == ["a"]
        assert run_page(operator, fresh).texts("[data-clock=for]")


def test_a_task_that_is_held_has_no_clock(paused: Execution, operator: User) -> None:
    assert running(operator, paused) == []


# --- actions that go with the state ---------------------------------------------------------------


def test_actions_are_refreshed_when_the_state_changes(paused: Execution, operator: User) -> None:
    client, path = browser(operator), f"/runs/{paused.pk}/"
    page = run_page(operator, paused)
    (refresh,) = page.attributes("#run-live", "hx-get")
    assert refresh.startswith(f"{path}?offers=")
    assert page.attributes("#run-actions", "hx-swap-oob") == [""]
    # What somebody is typing stays where it is while nothing else is offered.
    assert open_page(operator, refresh, **HTMX).texts("#run-actions") == []
    client.post(f"{path}commands/", {"kind": "abort", "reason": "no"})
    news = open_page(operator, refresh, **HTMX)
    assert news.attributes("#run-actions", "hx-swap-oob") == ["true"]
    assert "Message to the run" not in news.names("textbox")


# --- links into the story -------------------------------------------------------------------------


def test_every_entry_can_be_linked_to(paused: Execution, operator: User) -> None:
    page = run_page(operator, paused)
    for seq in range(1, paused.version + 1):
        assert len(page.texts(f"#e{seq}")) == 1
        assert f"#e{seq}" in page.links
