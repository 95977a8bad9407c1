"""Plans that a language model drafts: checked, completed with questions, never trusted."""

from typing import Any

import pytest

from graphrag.models import Tool
from graphrag.planning import plans, replanning, services
from tests.integration.workflows.agents.test_llm import Endpoint, endpoint, model
from workflows.executions.validation import check_plan
from workflows.planning.planner import suggest, sync_python_tools

__all__ = ["endpoint", "model"]

pytestmark = pytest.mark.django_db(transaction=True)

INTENT = "list the entries of the directory 'docs', then parse the JSON document"
LIST = {"id": "ls", "tool": "builtin.list_directory", "arguments": {"path": "docs"}}


@pytest.fixture
def drafter(model: Endpoint, settings: Any) -> Endpoint:
    sync_python_tools()
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "plan_drafter": "workflows.planning.llm_drafts.draft",
    }
    return model


def tools_of(plan: dict[str, Any] | None) -> list[str]:
    assert plan is not None
    return [plans.tool_name(task) or "" for task in plan["tasks"]]


def test_the_draft_of_the_model_is_the_plan(drafter: Endpoint) -> None:
    parse = {
        "id": "parse",
        "tool": "builtin.parse_json",
        "arguments": {"text": {"$from": "ls", "select": "entries[0].name"}},
        "depends_on": ["ls"],
    }
    drafter.answers = [{"tasks": [LIST, parse]}]
    found = suggest(INTENT, {"secret": "hunter2"})
    assert tools_of(found.plan) == ["builtin.list_directory", "builtin.parse_json"]
    assert found.plan is not None
    first, second = found.plan["tasks"]
    assert first["arguments"] == {"path": "docs"}
    assert second["arguments"]["text"]["$from"] == first["id"]
    assert second["depends_on"] == [first["id"]]
    assert "language model" in str(found.why[first["id"]]["reasons"])
    check_plan(found.plan)
    (sent,) = drafter.requests
    assert "hunter2" not in str(sent)
    assert "builtin.parse_json" in str(sent)


def test_an_argument_without_a_value_is_asked_for(drafter: Endpoint) -> None:
    wrong = {"id": "ls", "tool": "builtin.list_directory", "arguments": {"path": 5, "other": 1}}
    drafter.answers = [{"tasks": [wrong]}]
    found = suggest(INTENT, {})
    assert found.plan is not None
    (task,) = found.plan["tasks"]
    assert "other" not in task["arguments"]
    assert task["arguments"].get("path") != 5


@pytest.mark.parametrize(
    "tasks",
    [
        [],
        [{"id": "rm", "tool": "builtin.does_not_exist", "arguments": {}}],
        [{**LIST, "depends_on": ["ls"]}],
        [{**LIST, "depends_on": ["nowhere"]}],
        [{**LIST, "id": f"ls{at}"} for at in range(20)],
    ],
)
def test_an_invalid_draft_falls_back_to_the_rules(
    drafter: Endpoint, tasks: list[dict[str, Any]]
) -> None:
    drafter.answers = [{"tasks": tasks}] * 2
    found = services.suggest(INTENT)
    assert tools_of(found.plan)[0] == "builtin.list_directory"
    assert any("Planned without the language model" in warning for warning in found.warnings)


def test_a_malformed_answer_falls_back_to_the_rules(drafter: Endpoint) -> None:
    drafter.answers = [{"tasks": "rm -rf"}] * 3
    found = services.suggest(INTENT)
    assert tools_of(found.plan)[0] == "builtin.list_directory"
    assert any("language model" in warning for warning in found.warnings)


DONE = {**LIST, "type": "tool"}


def test_the_model_drafts_the_tasks_of_a_replan(drafter: Endpoint) -> None:
    parse = {
        "id": "parse",
        "tool": "builtin.parse_json",
        "arguments": {"text": {"$from": "ls", "select": "entries[0].name"}},
    }
    drafter.answers = [{"tasks": [parse]}]
    found = replanning.replan({"tasks": [DONE]}, ["ls"], "parse the JSON document")
    assert found.plan is not None
    kept, added = found.plan["tasks"]
    assert kept == DONE
    assert added["arguments"]["text"] == parse["arguments"]["text"]
    assert added["depends_on"] == ["ls"]
    (sent,) = drafter.requests
    assert "finished_tasks" in str(sent)


@pytest.mark.parametrize(
    "task", [{**LIST}, {"id": "p", "tool": "builtin.parse_json", "depends_on": ["running"]}]
)
def test_a_replan_of_the_model_reads_finished_tasks_only(
    drafter: Endpoint, task: dict[str, Any]
) -> None:
    drafter.answers = [{"tasks": [task]}] * 2
    running = {**DONE, "id": "running"}
    found = replanning.replan({"tasks": [DONE, running]}, ["ls"], "parse the JSON document")
    assert any("Planned without the language model" in warning for warning in found.warnings)
    assert found.plan is not None
    assert [each["id"] for each in found.plan["tasks"][:2]] == ["ls", "running"]


def test_a_prediction_asks_no_model(drafter: Endpoint) -> None:
    replanning.replan({"tasks": [DONE]}, ["ls"], "parse the JSON document", with_model=False)
    assert not drafter.requests


def test_the_model_cannot_leave_out_the_review_of_a_destructive_tool(drafter: Endpoint) -> None:
    Tool.objects.filter(name="builtin.list_directory").update(destructive=True)
    drafter.answers = [{"tasks": [LIST]}]
    found = suggest(INTENT, {})
    (task,) = check_plan(found.plan).tasks
    assert task.human_review is not None
    assert task.human_review.always
