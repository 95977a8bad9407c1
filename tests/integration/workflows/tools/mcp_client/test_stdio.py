"""Pooled sessions with stdio servers: values, errors, death, time and cancellation."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from workflows.common import background_loop
from workflows.engine.protocol.ports import TaskFailed
from workflows.tools.mcp_client import McpServerSpec, pool

from .conftest import SERVER, Journal, has_ended, until

Spec = Callable[..., McpServerSpec]
Call = Callable[..., Any]


def test_structured_content_is_the_value(spec: Spec, call: Call) -> None:
    assert call(spec(), "add", a=2, b=3) == {"sum": 5}


def test_texts_are_joined_and_stay_text(spec: Spec, call: Call) -> None:
    assert call(spec(), "shout", text='{"a": 1}') == '{"a": 1}\n{"A": 1}'


def test_non_text_content_is_returned_as_parts(spec: Spec, call: Call) -> None:
    assert call(spec(), "picture") == [
        {"type": "text", "text": "look"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]


def test_the_servers_error_is_the_tasks_error(spec: Spec, call: Call) -> None:
    with pytest.raises(TaskFailed, match=r"own\.fail: .*the disk is full") as failure:
        call(spec(), "fail", message="the disk is full")
    assert failure.value.retryable


def test_invalid_arguments_are_reported_by_the_server(spec: Spec, call: Call) -> None:
    with pytest.raises(TaskFailed, match=r"own\.add: .*a"):
        call(spec(), "add", a="many", b=3)


def test_a_result_beyond_the_bounds_is_refused(spec: Spec, call: Call) -> None:
    assert len(call(spec(), "big", length=200_000)) == 200_000
    with pytest.raises(TaskFailed, match="refused") as failure:
        call(spec(), "big", length=300_000)
    assert not failure.value.retryable


def test_the_server_sees_a_minimal_environment(
    spec: Spec, call: Call, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    seen = call(spec(), "surroundings")
    assert seen["JOURNAL"] == str(journal.path)
    allowed = {"HOME", "TMPDIR", "PATH", "LANG", "JOURNAL"}
    assert {name for name in seen if not name.startswith("LC_")} <= allowed


def test_calls_side_by_side_share_one_session(spec: Spec, journal: Journal) -> None:
    words = [f"w{n}" for n in range(5)]

    async def together() -> list[str]:
        ask = [pool().call(spec(), "meet", {"word": word, "others": words}) for word in words]
        return await asyncio.gather(*ask)

    assert background_loop.run(together(), 60) == words
    assert len(journal.pids) == 1


def test_a_call_may_come_from_any_loop(spec: Spec) -> None:
    assert asyncio.run(pool().call(spec(), "add", {"a": 1, "b": 1})) == {"sum": 2}


def test_killed_between_calls_is_restarted(spec: Spec, call: Call, journal: Journal) -> None:
    for round_ in range(3):
        pid = call(spec(), "pid")["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: not psutil.pid_exists(pid), "the server is gone")
        assert call(spec(), "add", a=round_, b=1) == {"sum": round_ + 1}
        assert len(journal.pids) == round_ + 2


def test_killed_during_a_call_fails_it_and_is_not_repeated(
    spec: Spec, call: Call, journal: Journal
) -> None:
    running = background_loop.submit(pool().call(spec(), "slow", {"seconds": 60}))
    journal.wait_for("slow began")
    os.kill(journal.pids[0], signal.SIGKILL)
    with pytest.raises(TaskFailed) as failure:
        running.result(20)
    assert failure.value.retryable
    assert journal.words.count("slow began") == 1
    assert call(spec(), "add", a=1, b=1) == {"sum": 2}


def test_a_call_that_takes_too_long_is_cancelled_on_the_server(
    spec: Spec, call: Call, journal: Journal
) -> None:
    call(spec(), "pid")
    with pytest.raises(TaskFailed, match="no answer within 1 s") as failure:
        call(spec(), "slow", timeout=1, seconds=60)
    assert failure.value.retryable
    journal.wait_for("slow cancelled")
    assert len(journal.pids) == 1
    assert call(spec(), "add", a=1, b=1) == {"sum": 2}
    assert len(journal.pids) == 1


def test_a_stopped_call_is_cancelled_on_the_server(spec: Spec, journal: Journal) -> None:
    stop = threading.Event()
    running = background_loop.submit(
        pool().call(spec(), "slow", {"seconds": 60}, should_stop=stop.is_set)
    )
    journal.wait_for("slow began")
    stop.set()
    with pytest.raises(TaskFailed, match="stopped") as failure:
        running.result(10)
    assert not failure.value.retryable
    journal.wait_for("slow cancelled")


def test_a_cancelled_caller_cancels_on_the_server(spec: Spec, journal: Journal) -> None:
    running = background_loop.submit(pool().call(spec(), "slow", {"seconds": 60}))
    journal.wait_for("slow began")
    running.cancel()
    journal.wait_for("slow cancelled")


def test_a_server_that_does_not_start_says_why(spec: Spec, call: Call) -> None:
    with pytest.raises(TaskFailed, match=r"did not start.*the configuration is wrong"):
        call(spec("--broken"), "add", a=1, b=1)
    with pytest.raises(TaskFailed, match="'no-such-program' is not a program"):
        call(spec(command="no-such-program"), "add", a=1, b=1)
    with pytest.raises(TaskFailed, match="; it sent a message that is not JSON-RPC"):
        call(spec(command="echo", args=("hello",)), "add", a=1, b=1)


def test_a_server_that_never_answers_times_out(spec: Spec, call: Call, journal: Journal) -> None:
    with pytest.raises(TaskFailed, match="no answer within 1 s"):
        call(spec("--mute", start_seconds=1), "add", a=1, b=1)
    until(lambda: all(has_ended(pid) for pid in journal.pids), "the mute server is ended")


def test_a_line_that_is_not_json_rpc_fails_all_calls_at_once(
    spec: Spec, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    garbled = spec(args=(str(SERVER.with_name("garbled.py")),))
    message = "own.add: MCP server own sent a message that is not JSON-RPC"

    async def together() -> list[Any]:
        ask = [pool().call(garbled, "add", {"calls": 2}, timeout=300) for _ in range(2)]
        return await asyncio.gather(*ask, return_exceptions=True)

    for round_ in range(2):
        caplog.clear()
        # The server also logs to its standard output, at its start, after its list and in calls.
        assert len(background_loop.run(pool().list_tools(garbled), 30)) == 1
        until(lambda: "The list was read" in caplog.text, "the line after the list is logged")
        failures = background_loop.run(together(), 30)
        assert [(str(failure), failure.retryable) for failure in failures] == [(message, True)] * 2
        assert len(journal.pids) == round_ + 1


def test_a_changed_spec_gets_a_new_server_and_lets_running_calls_end(
    spec: Spec, call: Call, journal: Journal
) -> None:
    running = background_loop.submit(pool().call(spec(), "slow", {"seconds": 1.5}))
    journal.wait_for("slow began")
    changed = spec(env={"JOURNAL": str(journal.path), "EXTRA": "1"})
    assert call(changed, "surroundings")["EXTRA"] == "1"
    assert running.result(20) == "slow"
    until(lambda: has_ended(journal.pids[0]), "the old server ends after its last call")


def test_list_tools_with_annotations(spec: Spec) -> None:
    tools = {tool.name: tool for tool in background_loop.run(pool().list_tools(spec()), 30)}
    add = tools["add"]
    assert (add.title, add.description) == ("Add two numbers", "Add a and b.")
    assert set(add.input_schema["required"]) == {"a", "b"}
    assert add.output_schema is not None
    hints = (add.read_only, add.destructive, add.idempotent, add.open_world)
    assert hints == (True, False, True, False)
    assert (tools["shout"].destructive, tools["shout"].read_only) == (True, None)
    assert tools["slow"].open_world is None


def test_list_tools_follows_the_pages(spec: Spec) -> None:
    paged = str(SERVER.with_name("paged.py"))
    tools = background_loop.run(pool().list_tools(spec(args=(paged,))), 30)
    assert [tool.name for tool in tools] == ["t0a", "t0b", "t1a", "t1b", "t2a", "t2b"]
    with pytest.raises(TaskFailed, match="more than 100 pages"):
        background_loop.run(pool().list_tools(spec(args=(paged, "endless"))), 30)


def test_a_changed_tool_list_reaches_the_hook(spec: Spec, call: Call) -> None:
    heard: list[str] = []
    pool().on_list_changed(heard.append)
    call(spec(), "change_list")
    until(lambda: heard, "the hook is called")
    assert set(heard) == {"own"}
