"""Which tools a gate offers, and what happens to their calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from mcp.shared.exceptions import MCPError

from graphrag.models import Tool
from tests.integration.workflows.mcp_gate.conftest import (
    Agent,
    Upstream,
    new_token,
    policy,
    text_of,
)
from tests.support.pages import browser
from workflows.api import throttling
from workflows.engine.values.bounded_json import digest
from workflows.mcp_gate import server as gate_server
from workflows.mcp_server.threads import in_thread
from workflows.models import ApiToken, Approval, Gate, GateCall, McpServer
from workflows.permissions.tokens import revoke

pytestmark = pytest.mark.django_db(transaction=True)


def test_tools_are_offered_as_the_server_describes_them(agent: Agent) -> None:
    tools = agent.names()
    look, write = tools["files__look"], tools["files__write"]
    assert (look.title, look.description) == ("Look", "Read a file.")
    assert look.annotations.read_only_hint is True
    assert look.output_schema is not None
    assert look.meta["holdpoint/policy"] == "allow"
    assert write.meta["holdpoint/policy"] == "hold"
    assert "holdpoint_await" in tools


def test_a_read_only_tool_is_called_at_once(agent: Agent, upstream: Upstream) -> None:
    result = agent.call("files__look", path="a")
    assert (result.is_error, result.structured_content) == (False, {"path": "a"})
    assert upstream.calls == [{"tool": "look", "path": "a"}]
    call = GateCall.objects.get()
    assert (call.tool, call.policy, call.outcome) == ("files.look", "allow", "answered")
    assert call.arguments_digest == call.sent_digest
    assert call.sent_at is not None
    assert call.answer_digest
    assert not Approval.objects.exists()


def test_what_was_asked_and_answered_is_kept_and_shown_with_secrets_masked(
    agent: Agent, gate: Gate
) -> None:
    policy(gate, "files.write", "deny")
    secret = "sk-live-4242424242424242abcdef"
    agent.call("files__look", path=f"/keys/{secret}")
    agent.call("files__write", path="denied.txt", text="b")
    denied, allowed = GateCall.objects.all()
    assert json.loads(denied.arguments) == {"path": "denied.txt", "text": "b"}
    assert json.loads(allowed.arguments) == {"path": f"/keys/{secret}"}
    assert json.loads(allowed.answer)["structuredContent"] == {"path": f"/keys/{secret}"}
    assert digest(json.loads(allowed.answer)) == allowed.answer_digest
    Tool.objects.filter(name="files.look").update(
        output_schema={"properties": {"path": {"type": "string", "writeOnly": True}}}
    )
    client = browser(User.objects.create_superuser("root"))
    page = client.get(f"/admin/workflows/gatecall/{allowed.pk}/change/").content.decode()
    assert "structuredContent" in page
    assert "/keys/" in page  # the arguments
    assert secret not in page
    shown = client.get(f"/admin/workflows/gatecall/{denied.pk}/change/").content.decode()
    assert "denied.txt" in shown
    given = {"password": 'open "sesame" now', "token": "open"}
    said = json.dumps({"got": given["password"]})
    GateCall.objects.filter(pk=denied.pk).update(
        arguments=json.dumps(given),
        answer=json.dumps({"content": [{"type": "text", "text": said}]}),
        answer_digest="x",
        error=f"There is no {given['password']}.",
    )
    shown = client.get(f"/admin/workflows/gatecall/{denied.pk}/change/").content.decode()
    assert "There is no" in shown
    assert "sesame" not in shown


@pytest.mark.parametrize("limit", [0, 20])
def test_only_digests_are_kept_of_what_is_larger(limit: int, agent: Agent, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "gate_keep_bytes": limit}
    assert agent.call("files__look", path="a" * 20).structured_content == {"path": "a" * 20}
    call = GateCall.objects.get()
    assert (call.arguments, call.answer) == ("", "")
    assert call.arguments_digest
    assert call.answer_digest
    client = browser(User.objects.create_superuser("root"))
    page = client.get(f"/admin/workflows/gatecall/{call.pk}/change/").content.decode()
    assert page.count("Only the digest is kept") == 3


def test_a_denied_tool_is_neither_offered_nor_called(
    agent: Agent, gate: Gate, upstream: Upstream
) -> None:
    policy(gate, "files.write", "deny")
    assert "files__write" not in agent.names()
    result = agent.call("files__write", path="a", text="b")
    assert result.is_error
    assert "does not allow" in text_of(result)
    assert upstream.calls == []
    assert GateCall.objects.get().outcome == "denied"


def test_a_policy_replaces_the_default(agent: Agent, gate: Gate, upstream: Upstream) -> None:
    policy(gate, "files.write", "allow")
    policy(gate, "files.look", "hold")
    tools = agent.names()
    assert tools["files__write"].meta["holdpoint/policy"] == "allow"
    assert tools["files__look"].meta["holdpoint/policy"] == "hold"
    assert not agent.call("files__write", path="a", text="b").is_error
    assert len(upstream.of("write")) == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"permission_set": "mcp-standard"}, "hold"),
        ({"read_only": False}, "hold"),
        ({"destructive": True}, "hold"),
        ({"enabled": False}, None),
    ],
)
def test_the_default_follows_the_marks_of_the_catalogue(
    agent: Agent, change: dict[str, object], expected: str | None
) -> None:
    Tool.objects.filter(name="files.look").update(**change)
    tool = agent.names().get("files__look")
    assert (tool.meta["holdpoint/policy"] if tool else None) == expected


def test_a_disabled_tool_stays_denied(agent: Agent, gate: Gate) -> None:
    Tool.objects.filter(name="files.look").update(enabled=False)
    policy(gate, "files.look", "allow")
    assert agent.call("files__look", path="a").is_error
    assert GateCall.objects.get().outcome == "denied"


def test_a_tool_that_the_catalogue_does_not_know_is_held(agent: Agent) -> None:
    Tool.objects.filter(name="files.look").delete()
    assert agent.names()["files__look"].meta["holdpoint/policy"] == "hold"


def test_results_pass_unchanged(agent: Agent, gate: Gate) -> None:
    policy(gate, "files.write", "allow")
    result = agent.call("files__write", path="a", text="bc")
    assert [block.type for block in result.content] == ["text", "image"]
    assert result.structured_content == {"path": "a", "bytes": 2}
    assert (result.meta or {})["example/revision"] == 7


def test_errors_pass_unchanged(agent: Agent, gate: Gate) -> None:
    policy(gate, "files.fail", "allow")
    policy(gate, "files.refuse", "allow")
    result = agent.call("files__fail", message="no space")
    assert result.is_error
    assert "no space" in text_of(result)
    with pytest.raises(MCPError) as refused:
        agent.call("files__refuse")
    assert (refused.value.code, refused.value.message) == (-32055, "not today")
    assert refused.value.error.data == {"until": "tomorrow"}
    assert list(GateCall.objects.order_by("id").values_list("outcome", flat=True)) == [
        "tool_error", "error",
    ]  # fmt: skip


def test_a_server_that_ends_in_a_call_leaves_an_unknown_outcome(
    agent: Agent, gate: Gate, upstream: Upstream
) -> None:
    policy(gate, "files.leave", "allow")
    result = agent.call("files__leave")
    assert result.is_error
    assert "unknown" in text_of(result)
    assert len(upstream.of("leave")) == 1
    assert GateCall.objects.get().outcome == "unknown"


def test_a_server_that_cannot_be_reached_was_not_called(agent: Agent, gate: Gate) -> None:
    McpServer.objects.update(command="no-such-program")
    assert set(agent.names()) == {"holdpoint_await"}
    result = agent.call("files__look", path="a")
    assert result.is_error
    assert "cannot be reached" in text_of(result)
    assert GateCall.objects.get().outcome == "not_sent"


def test_progress_passes(agent: Agent) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(*values: object) -> None:
        heard.append(values)  # type: ignore[arg-type]

    assert text_of(agent.call("files__slow", hear, seconds=0.3)) == "done"
    assert (1.0, 2.0, "half") in heard


def test_a_name_of_no_tool_is_refused(agent: Agent) -> None:
    for name in ("look", "files.look", "other__look", "files__"):
        with pytest.raises(MCPError, match="no tool"):
            agent.call(name)


def test_the_longest_server_name_has_the_tool(agent: Agent, gate: Gate) -> None:
    files = McpServer.objects.get()
    longer = McpServer.objects.create(
        name="files__look",
        command=files.command,
        args=files.args,
        env=files.env,
        read_paths=files.read_paths,
        write_paths=files.write_paths,
    )
    gate.servers.add(longer)
    names = agent.names()
    assert "files__look__look" in names
    assert Agent(new_token()).call("files__look__look", path="a").is_error  # held: not synchronized
    assert GateCall.objects.get().tool == "files__look.look"


def test_a_changed_list_is_announced_to_those_who_listen(agent: Agent, gate: Gate) -> None:
    policy(gate, "files.change_list", "allow")

    async def inside() -> tuple[set[str], set[str]]:
        async with agent.connect() as client:
            before = {tool.name for tool in (await client.list_tools()).tools}
            async with client.listen(tools_list_changed=True) as changes:
                await client.call_tool("files__change_list", {})
                async with asyncio.timeout(30):
                    await anext(aiter(changes))
            return before, {tool.name for tool in (await client.list_tools()).tools} - before

    before, new = asyncio.run(inside())
    assert "files__newcomer" not in before
    assert new == {"files__newcomer"}


def test_an_error_that_cannot_be_stored_reaches_the_agent(agent: Agent, gate: Gate) -> None:
    policy(gate, "files.refuse", "allow")
    with pytest.raises(MCPError, match="not\0today"):
        agent.call("files__refuse", message="not\0today")
    call = GateCall.objects.get()
    assert (call.outcome, call.error) == ("error", "nottoday")


def test_a_stream_of_changes_ends_with_the_token(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_server, "_RIGHTS_SECONDS", 0.05)

    async def inside() -> None:
        async with agent.connect() as client, client.listen(tools_list_changed=True) as changes:
            await in_thread(lambda: revoke(tokens=ApiToken.objects.all()))
            async with asyncio.timeout(30):
                assert [change async for change in changes] == []

    asyncio.run(inside())


def test_streams_of_changes_count_as_waiting_calls(agent: Agent, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "connections_each": 1}

    async def inside() -> None:
        async with agent.connect() as client:
            async with client.listen(tools_list_changed=True):
                with pytest.raises(MCPError, match="has 1 calls waiting already"):
                    async with client.listen(tools_list_changed=True):
                        pytest.fail("there are two streams")
            async with client.listen(tools_list_changed=True):
                pass

    asyncio.run(inside())


def test_a_cancelled_call_is_cancelled_at_the_server(agent: Agent, upstream: Upstream) -> None:
    async def inside() -> None:
        async with agent.connect() as client:
            calling = asyncio.create_task(client.call_tool("files__slow", {"seconds": 60}))
            async with asyncio.timeout(30):
                while not upstream.of("slow"):
                    await asyncio.sleep(0.05)
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)
                while not any(call.get("cancelled") for call in upstream.calls):
                    await asyncio.sleep(0.05)

    asyncio.run(inside())
    call = GateCall.objects.get()
    assert (call.outcome, call.error) == ("unknown", "The call was interrupted: cancelled.")


def test_new_reviews_count_as_starts(
    agent: Agent, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling.time, "time", lambda: 1_800_000_010.0)
    limits = {"gate_wait_seconds": 0, "starts_per_minute": 1}
    settings.HOLDPOINT = {**settings.HOLDPOINT, **limits}
    first = agent.call("files__write", path="a", text="b")
    assert "Nothing was executed yet" in text_of(first)
    again = agent.call("files__write", path="a", text="b")
    assert "Nothing was executed yet" in text_of(again)
    second = agent.call("files__write", path="b", text="b")
    assert (second.meta or {})["holdpoint/error"]["code"] == "throttled"
    assert GateCall.objects.count() == 1
