"""Runs driven by an agent alone, while the web process dies between any two calls."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from tests.integration.workflows.mcp_server.conftest import (
    VALIDATED,
    Agents,
    Call,
    at_rest,
    chain,
    value,
)
from tests.integration.workflows.mcp_server.web import Web, refused
from tests.support.processes import wait_for
from workflows.executions.services import start_execution
from workflows.mcp_server.threads import in_thread
from workflows.models import CommandLog, Execution, ExecutionEvent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("workers")]


def ids(tasks: list[dict[str, Any]]) -> list[str]:
    return [task["id"] for task in tasks]


def test_a_run_is_executed_continued_and_completed(web: Web, agent: Agents) -> None:
    one = agent()
    first = one.answer("execute", plan=chain("a", "b", "c"), config=VALIDATED)
    assert first["status"] == "layer_complete"
    assert (first["layer_index"], first["total_layers"]) == (0, 3)
    assert [(each["id"], each["output"]) for each in first["layer_results"]] == [("a", "a")]
    assert ids(first["next_layer_preview"]) == ["b"]
    assert first["options"] == ["continue", "replan", "abort"]
    assert first["checkpoint_id"]
    web.killed_and_started()
    second = one.answer("continue", workflow_id=first["workflow_id"], version=first["version"])
    assert (second["status"], ids(second["layer_results"])) == ("layer_complete", ["b"])
    assert second["checkpoint_id"] != first["checkpoint_id"]
    web.killed_and_started()
    last = one.answer("continue", workflow_id=first["workflow_id"], version=second["version"])
    assert (last["status"], ids(last["layer_results"])) == ("complete", ["c"])
    assert (last["options"], last["next_layer_preview"]) == ([], [])
    whole = one.answer("get_execution", workflow_id=first["workflow_id"], all_layers=True)
    assert [each["output"] for each in whole["layer_results"]] == ["a", "b", "c"]


def test_a_replan_in_the_middle_returns_new_tasks(web: Web, agent: Agents) -> None:
    one = agent()
    plan = {"tasks": [value("list", {"files": ["a.xml"]}), value("last", {"$from": "list"})]}
    first = one.answer("execute", plan=plan, config=VALIDATED)
    web.killed_and_started()
    second = one.answer(
        "replan",
        workflow_id=first["workflow_id"],
        new_requirement="parse XML",
        available_context={"text": "<a><b>1</b></a>"},
    )
    changed = second["replanned"]
    assert changed["revision"] == 2
    (added,) = changed["added"]
    assert added["target"] == "builtin.parse_xml"
    assert second["new_tasks"] == changed["added"]
    assert set(ids(second["layer_results"])) == {"last", added["id"]}
    last = one.answer("get_execution", workflow_id=first["workflow_id"], wait_seconds=20)
    assert last["status"] == "complete"
    assert {each["status"] for each in last["layer_results"]} == {"SUCCEEDED"}


def test_an_abort_in_the_middle_keeps_its_reason(web: Web, agent: Agents) -> None:
    one = agent()
    first = one.answer("execute", plan=chain("a", "b"), config=VALIDATED)
    web.killed_and_started()
    over = one.answer("abort", workflow_id=first["workflow_id"], reason="the wrong repository")
    assert (over["status"], over["reason"]) == ("aborted", "the wrong repository")
    again = one.answer("get_execution", workflow_id=first["workflow_id"])
    assert (again["status"], again["reason"]) == ("aborted", "the wrong repository")
    row = Execution.objects.get(pk=first["workflow_id"])
    assert (row.status, row.error) == ("ABORTED", "the wrong repository")
    assert CommandLog.objects.get(execution=row).source == "mcp"


def test_an_active_run_is_aborted(agent: Agents) -> None:
    one = agent()
    slow = {"id": "s", "type": "tool", "tool": "testkit.slow", "arguments": {"seconds": 60}}
    config = {"wait_seconds": 0}
    first = one.answer("execute", plan={"tasks": [slow]}, config=config)
    assert first["status"] == "running"
    assert "abort" in first["options"]
    wait_for(lambda: Execution.objects.get(pk=first["workflow_id"]).layer == 0)
    over = one.answer("abort", workflow_id=first["workflow_id"], reason="too slow")
    assert (over["status"], over["reason"]) == ("aborted", "too slow")


def test_a_call_that_dies_while_it_waits_is_repeated_without_a_second_run(
    web: Web, agent: Agents
) -> None:
    one = agent()
    slow = {"id": "s", "type": "tool", "tool": "testkit.slow", "arguments": {"seconds": 4}}
    arguments = {"plan": {"tasks": [slow]}, "idempotency_key": "the-one-run"}

    async def cut_off() -> None:
        waiting = asyncio.create_task(one.acall("execute", arguments))
        await in_thread(wait_for, Execution.objects.exists)
        web.end()
        await asyncio.wait_for(waiting, 30)

    with pytest.raises(Exception):  # noqa: B017 - whatever the client makes of it
        asyncio.run(cut_off())
    web.start()
    answer = one.answer("execute", **arguments)
    assert answer["status"] == "complete"
    assert Execution.objects.count() == 1
    other = one.refused("execute", **{**arguments, "inputs": {"n": 1}})
    assert other["code"] == "idempotency_mismatch"


def test_a_repeated_continue_skips_no_layer(agent: Agents) -> None:
    one = agent()
    first = one.answer("execute", plan=chain("a", "b", "c"), config=VALIDATED)
    seen = {"workflow_id": first["workflow_id"], "version": first["version"]}
    keyed = {"workflow_id": first["workflow_id"], "idempotency_key": "k"}
    assert ids(one.answer("continue", **keyed)["layer_results"]) == ["b"]
    assert ids(one.answer("continue", **keyed)["layer_results"]) == ["b"]
    stale = one.refused("continue", **seen)
    assert stale["code"] == "stale_version"
    assert stale["state"]["status"] == "AWAITING_AGENT"
    assert one.answer("get_execution", workflow_id=first["workflow_id"])["layer_index"] == 1


def test_a_replan_without_a_match_leaves_the_run_unchanged(agent: Agents) -> None:
    one = agent()
    first = one.answer("execute", plan=chain("a", "b"), config=VALIDATED)
    workflow = {"workflow_id": first["workflow_id"]}
    wish = "fold the laundry of the neighbour"
    failed = one.refused("replan", **workflow, new_requirement=wish)
    assert failed["code"] == "not_done"
    assert failed["text"].startswith("The planner found no new plan: ")
    assert "continue, replan or abort" in failed["text"]
    assert failed["state"]["status"] == "layer_complete"
    now = one.answer("get_execution", **workflow)
    assert (now["status"], now["layer_index"]) == ("layer_complete", 0)
    retried = one.answer(
        "replan", **workflow, new_requirement="parse JSON", available_context={"text": "{}"}
    )
    assert ids(retried["replanned"]["added"])
    assert ExecutionEvent.objects.filter(kind="replan_failed").count() == 1


def test_finished_and_unknown_runs_are_reported(agent: Agents) -> None:
    one = agent()
    done = one.answer("execute", plan=chain("a"))
    assert done["status"] == "complete"
    for tool, more in (("continue", {}), ("abort", {}), ("replan", {"new_requirement": "more"})):
        over = one.refused(tool, workflow_id=done["workflow_id"], **more)
        assert (over["code"], over["reason"]) == ("refused", "final")
        assert "has ended" in over["text"]
        for nowhere in ("999999", "x", "-1", "9" * 30, "٣"):
            assert one.refused(tool, workflow_id=nowhere, **more)["code"] == "not_found"
    assert one.answer("get_execution", workflow_id=int(done["workflow_id"]))["status"] == "complete"


def test_an_external_agent_decides_where_the_policy_says(agent: Agents) -> None:
    one = agent()
    ail = {"enabled": True, "agent": "external", "timeout_seconds": 60}
    config = {"policy": {"ail": ail}}
    first = one.answer("execute", plan=chain("a", "b"), config=config)
    assert (first["status"], first["layer_index"]) == ("layer_complete", 0)
    (waits,) = one.answer("list_pending", decider="agent")["pending"]
    assert (waits["reason"], waits["options"]) == (
        "agent_decision",
        ["continue", "replan", "abort"],
    )
    last = one.answer("continue", workflow_id=first["workflow_id"], reason="fine")
    assert last["status"] == "complete"
    decided = ExecutionEvent.objects.get(kind="hold_decided")
    assert (decided.actor, decided.source) == ("integrator", "mcp")


def test_a_failed_run_has_its_reason(agent: Agents) -> None:
    broken = {"id": "x", "type": "tool", "tool": "builtin.fail", "arguments": {"message": "no!"}}
    answer = agent().answer("execute", plan={"tasks": [broken]})
    assert answer["status"] == "failed"
    assert "no!" in answer["layer_results"][0]["error"]


def test_an_intent_becomes_a_plan_or_names_the_nearest_tools(agent: Agents) -> None:
    one = agent()
    none = one.refused("execute", intent="fold the laundry of the neighbour")
    assert none["errors"][0]["path"] == "intent"
    tools = one.answer("search_tools", query="parse XML", limit=3)["tools"]
    assert tools[0]["name"] == "builtin.parse_xml"
    assert "text" in tools[0]["input_schema"]["properties"]
    listing = one.answer("search_tools", query="list the entries of a directory", limit=1)["tools"]
    assert listing[0]["name"] == "builtin.list_directory"
    assert "files" in listing[0]["output_schema"]["properties"]
    found = one.answer("execute", intent="parse XML", inputs={"text": "<a/>"})
    assert found["status"] == "complete"


def everything_refused(user: Any, tools: Collection[str]) -> dict[str, Any]:
    """A memory in which people refused most calls of every tool."""
    return {tool: SimpleNamespace(tool=tool, is_mostly_rejected=True) for tool in tools}


def test_intents_and_replans_ask_about_tools_that_people_refused(
    call: Call, people: Any, settings: Any
) -> None:
    memory = f"{__name__}.everything_refused"
    settings.HOLDPOINT = {**settings.HOLDPOINT, "tool_memory": memory}
    told = refused(call("integrator", "execute", intent="parse XML", inputs={"text": "<a/>"}))
    assert [each["code"] for each in told["errors"]] == ["unsure"]
    assert "People refused most of the latest calls" in told["text"]

    started = start_execution(actor=people["integrator"], plan=chain("a", "b"), policy=VALIDATED)
    changed = call(
        "integrator",
        "replan",
        workflow_id=str(at_rest(started).pk),
        new_requirement="parse XML",
        available_context={"text": "<a/>"},
        wait_seconds=0,
    ).structured_content
    assert changed is not None
    (question,) = changed["replanned"]["questions"]
    assert question.startswith("People refused most of the latest calls of 'builtin.parse_xml'")
