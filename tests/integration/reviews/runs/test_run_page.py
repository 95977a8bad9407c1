"""The run page: conversation, queued messages, running tasks, links into the timeline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.integration.reviews.conftest import MakeUser, Start, echo
from tests.integration.reviews.decisions.test_pages import HTMX, browser
from workflows.engine.commands import AddMessage
from workflows.engine.events import ExecutionStarted, LayerStarted
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


def html(user: User, execution: Execution) -> str:
    return browser(user).get(f"/runs/{execution.pk}/").content.decode()


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
    submit_command(execution_id=paused.pk, command=said, actor="agent:rules", source="agent")
    page = html(operator, paused)
    entry = place.partition("#")[2]
    assert f'id="{entry}"' in page
    lines = re.findall(r'class="speaker"><b>(.*?)</b> <span class="muted">(.*?)</span>', page)
    assert lines == [("operator", "person"), ("rules", "agent")]
    for words in ("mind the title", "I will."):
        assert words in page


def test_participants_may_write_and_auditors_only_read(
    paused: Execution, reviewer: User, auditor: User, make_user: MakeUser
) -> None:
    say(reviewer, paused, "looking at it")
    assert "run-message" in html(reviewer, paused)
    assert "run-abort" not in html(reviewer, paused)
    assert "looking at it" in html(auditor, paused)
    assert "run-message" not in html(auditor, paused)
    form = {"kind": "message", "text": "psst"}
    path = f"/runs/{paused.pk}/commands/"
    assert browser(auditor).post(path, form).status_code == 403
    assert browser(make_user("stranger", "other")).post(path, form).status_code == 404
    assert "psst" not in html(auditor, paused)


def test_a_message_during_a_layer_waits_for_its_end(fresh: Execution, operator: User) -> None:
    with at_work(fresh):
        assert say(operator, fresh, "be quick").endswith("#queued")
        page = html(operator, fresh)
        assert 'id="queued"' in page
        assert "be quick" in page
        assert "will be applied after this layer" in page
        browser(operator).post(
            f"/runs/{fresh.pk}/commands/", {"kind": "abort", "reason": "too slow"}
        )
        page = html(operator, fresh)
        assert "abort: too slow" in page
        assert "running tasks are being stopped" in page
    done = run_to_rest(fresh.pk)
    page = html(operator, done)
    assert done.status == "ABORTED"
    assert 'id="queued"' not in page
    assert "be quick" in page
    assert "operator aborted the run: too slow" in re.sub(r"</?b>", "", page)


# --- what runs ------------------------------------------------------------------------------------


def test_running_tasks_have_a_clock(fresh: Execution, operator: User) -> None:
    assert "data-running" not in html(operator, fresh)
    with at_work(fresh) as run:
        run.record(ExecutionStarted(total_layers=1, total_tasks=1))
        run.record(LayerStarted(layer=0, tasks=("a",), skips={}))
        run.commit()
        page = html(operator, fresh)
        assert 'data-running="a"' in page
        assert 'data-clock="for"' in page


def test_a_task_that_is_held_has_no_clock(paused: Execution, operator: User) -> None:
    assert "data-running" not in html(operator, paused)


# --- actions that go with the state ---------------------------------------------------------------


def test_actions_are_refreshed_when_the_state_changes(paused: Execution, operator: User) -> None:
    client, path = browser(operator), f"/runs/{paused.pk}/"
    page = client.get(path).content.decode()
    asked = re.search(r'hx-get="(/runs/\d+/\?offers=[\w-]*)"', page)
    assert asked is not None
    assert "hx-swap-oob" not in page
    # What somebody is typing stays where it is while nothing else is offered.
    assert "run-actions" not in client.get(asked[1], headers=HTMX).content.decode()
    client.post(f"{path}commands/", {"kind": "abort", "reason": "no"})
    news = client.get(asked[1], headers=HTMX).content.decode()
    assert re.search(r'id="run-actions" hx-swap-oob="true"', news)
    assert "run-message" not in news


# --- links into the story -------------------------------------------------------------------------


def test_every_entry_can_be_linked_to(paused: Execution, operator: User) -> None:
    page = html(operator, paused)
    for seq in range(1, paused.version + 1):
        assert page.count(f'id="e{seq}"') == 1
        assert f'href="#e{seq}"' in page
