"""The run page offers the commands that the engine would take, and failures say why in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.reviews.conftest import Start, echo
from tests.support.actors import actor_named
from tests.support.pages import Page, browser, open_page
from workflows.engine.protocol.commands import Abort, Continue, Replan
from workflows.executions.selectors import refusal
from workflows.executions.services import submit_command
from workflows.models import Execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "BEFORE_EXECUTION"
REPLAN = Replan(new_requirement="parse the XML files")
WAITS = {"per_layer_validation": True, "replan_review": False}


def offered(user: User, execution: Execution) -> list[str]:
    """The names of the buttons on the page of a run."""
    return open_page(user, f"/runs/{execution.pk}/").names("button")


def send(user: User, execution: Execution, **fields: str) -> str:
    """The page that follows a command."""
    answer = browser(user).post(f"/runs/{execution.pk}/commands/", fields, follow=True)
    assert answer.status_code == 200
    return Page(answer).text


def waiting_for_an_agent(start: Start, **policy: Any) -> Execution:
    execution = start(echo("a"), echo("b", {"$from": "a"}), policy={**WAITS, **policy})
    assert execution.status == "AWAITING_AGENT"
    return execution


def test_replan_is_not_offered_while_a_person_decides(start: Start, operator: User) -> None:
    paused = start(echo("a", phase=BEFORE))
    buttons = offered(operator, paused)
    assert "Replan" not in buttons
    assert "Send" in buttons
    assert "Abort the run" in buttons
    assert "Decide the open reviews of this run first" in refusal(paused, REPLAN)
    assert refusal(paused, Continue()) == "The run is not waiting to be continued."
    assert refusal(paused, Abort()) == ""
    page = open_page(operator, f"/runs/{paused.pk}/")
    places = page.attributes("#run-actions, #run-live", "id")
    assert places == ["run-actions", "run-live"], "the actions stand above the plan"


def test_replan_is_offered_while_an_agent_decides_until_the_limit(
    start: Start, operator: User, settings: Any
) -> None:
    execution = waiting_for_an_agent(start)
    assert {"Replan", "Continue"} <= set(offered(operator, execution))
    settings.HOLDPOINT = {**settings.HOLDPOINT, "max_replans": 0}
    assert "Replan" not in offered(operator, execution)
    assert "A run is replanned at most 0 times." in send(
        operator, execution, kind="replan", requirement="more"
    )


def test_replan_is_not_offered_while_a_plan_change_waits(start: Start, operator: User) -> None:
    execution = waiting_for_an_agent(start, replan_review=True)
    assert "Replan" in offered(operator, execution)
    submit_command(
        execution_id=execution.pk, command=REPLAN, actor=actor_named("operator"), source="web"
    )
    execution.refresh_from_db()
    assert "Replan" not in offered(operator, execution)


def test_a_replan_without_a_plan_says_why(start: Start, operator: User) -> None:
    execution = waiting_for_an_agent(start)
    shown = send(operator, execution, kind="replan", requirement="qzx vwk")
    assert "The plan was not changed: " in shown


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "message", "text": " "}, "The message was not sent. Write a message."),
        ({"kind": "replan", "requirement": ""}, "The run was not replanned. Write a requirement"),
        ({"kind": "abort", "reason": "x" * 4001}, "The run was not aborted. Write a reason"),
        ({"kind": "continue", "version": "1"}, "The run has changed."),
    ],
)
def test_a_command_that_fails_says_why(
    start: Start, operator: User, fields: dict[str, str], words: str
) -> None:
    shown = send(operator, start(echo("a", phase=BEFORE)), **fields)
    assert words in shown
    assert "characters</" not in shown
    assert "String should" not in shown
