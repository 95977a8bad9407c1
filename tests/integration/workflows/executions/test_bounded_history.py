"""Limits of what is loaded of a conversation, and of the checkpoints that are stored."""

from typing import Any

import pytest
from django.db import transaction

from tests.support.actors import actor_named
from tests.support.catalogue import stock_catalogue
from workflows.engine.protocol.commands import AddMessage
from workflows.executions.jobs import run_to_rest
from workflows.executions.selectors import messages_of
from workflows.executions.services import start_execution, submit_command
from workflows.journal.writer import DjangoJournal
from workflows.models import Execution, ExecutionEvent

pytestmark = pytest.mark.django_db(transaction=True)


def started(*names: str) -> Execution:
    stock_catalogue()
    tasks = [
        {
            "id": name,
            "type": "tool",
            "tool": "builtin.echo",
            "arguments": {"value": 1},
            "depends_on": list(names[:number][-1:]),
        }
        for number, name in enumerate(names)
    ]
    return start_execution(plan={"tasks": tasks}, actor=None)


def test_the_newest_messages_are_loaded(settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "conversation_messages": 2}
    run = started("a")
    for text in ("one", "two", "three"):
        with transaction.atomic():
            submit_command(
                execution_id=run.pk,
                command=AddMessage(content=text),
                actor=actor_named("ann"),
                source="rest",
            )
    assert ExecutionEvent.objects.filter(kind="message_added").count() == 3
    assert [each["content"] for each in messages_of(run)] == ["two", "three"]
    with DjangoJournal().open(str(run.pk), expected_version=None) as opened:
        assert [each["content"] for each in opened.conversation()] == ["two", "three"]


@pytest.mark.parametrize(("kept", "stored"), [(0, 0), (2, 2), (5, 3)])
def test_checkpoints_that_are_kept(settings: Any, kept: int, stored: int) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "checkpoints_kept": kept}
    run = run_to_rest(started("a", "b", "c").pk)
    assert run.status == "COMPLETED"
    assert run.checkpoints.count() == stored
