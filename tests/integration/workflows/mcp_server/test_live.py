"""While a layer runs: progress, answers in time, several agents at once, both protocols, pipes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp_types import INVALID_PARAMS

from tests.integration.workflows.mcp_server.conftest import VALIDATED, Agents, Tokens, chain
from tests.integration.workflows.mcp_server.web import Web, call_of, post, rpc_message
from tests.support.processes import ROOT, environment, wait_for
from workflows.mcp_server.threads import in_thread
from workflows.models import ApiToken, Execution

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("workers")]


def slow(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    arguments = {"seconds": seconds}
    return {"id": name, "type": "tool", "tool": "testkit.slow", "arguments": arguments, **more}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_progress_is_sent_while_a_layer_runs(agent: Agents, mode: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    plan = {"tasks": [slow("a", 0.5), slow("b", 1.5), slow("c", 0.1, depends_on=["b"])]}
    result = asyncio.run(agent(mode=mode).acall("execute", {"plan": plan}, hear))
    assert result.structured_content["status"] == "complete"
    numbers = [progress for progress, _, _ in heard]
    assert numbers == sorted(set(numbers))
    assert {total for _, total, _ in heard} == {3.0}
    texts = [str(message) for _, _, message in heard]
    assert any("layer 1 of 2" in each and "running: a, b" in each for each in texts)
    assert any("1 of 3 tasks finished" in each for each in texts)
    # The last of them may be heard of too, before the answer is.
    assert max(numbers) <= 3


def test_a_long_run_answers_in_time_and_can_be_polled(agent: Agents) -> None:
    one = agent()
    first = one.answer("execute", plan={"tasks": [slow("a", 2)]}, config={"wait_seconds": 0.2})
    assert first["status"] == "running"
    assert "get_execution" in first["message"]
    assert first["options"] == ["get_execution", "abort"]
    last = one.answer("get_execution", workflow_id=first["workflow_id"], wait_seconds=30)
    assert last["status"] == "complete"


def test_two_agents_at_once_have_runs_of_their_own(agent: Agents) -> None:
    agents = [agent("integrator"), agent("operator", mode="legacy")]

    async def flow(index: int) -> list[str]:
        one = agents[index]
        plan = chain(f"x{index}", f"y{index}")
        first = await one.acall("execute", {"plan": plan, "config": VALIDATED})
        workflow = first.structured_content["workflow_id"]
        last = await one.acall("continue", {"workflow_id": workflow})
        both = (first, last)
        return [each.structured_content["layer_results"][0]["output"] for each in both]

    async def side_by_side() -> list[list[str]]:
        return list(await asyncio.gather(*(flow(at % 2) for at in range(6))))

    assert asyncio.run(side_by_side()) == [[f"x{at % 2}", f"y{at % 2}"] for at in range(6)]
    assert Execution.objects.count() == 6


def test_one_of_two_answers_to_the_same_question_wins(agent: Agents) -> None:
    one, two = agent(), agent("operator")
    first = one.answer("execute", plan=chain("a", "b"), config=VALIDATED)
    seen = {"workflow_id": first["workflow_id"], "version": first["version"]}

    async def both() -> list[Any]:
        calls = (one.acall("continue", seen), two.acall("abort", {**seen, "reason": "no"}))
        return list(await asyncio.gather(*calls))

    results = asyncio.run(both())
    assert sorted(each.is_error for each in results) == [False, True]


def test_a_revoked_token_ends_a_call_that_waits(agent: Agents, people: Any) -> None:
    one = agent()

    async def waiting() -> Any:
        call = asyncio.create_task(one.acall("execute", {"plan": {"tasks": [slow("a", 20)]}}))
        await in_thread(revoke_when_running)
        return await asyncio.wait_for(call, 20)

    result = asyncio.run(waiting())
    assert result.meta["holdpoint/error"]["code"] == "unauthenticated"
    Execution.objects.get()


def revoke_when_running() -> None:
    wait_for(lambda: Execution.objects.filter(layer=0).exists())
    ApiToken.objects.update(revoked_at="2020-01-01T00:00:00Z")


def test_every_answer_fits_the_schema_its_tool_lists(web: Web, token: Tokens) -> None:
    listing = rpc_message(
        post(web.url, token("operator"), {**call_of("", {}), "method": "tools/list"})
    )
    tools = {each["name"]: each for each in listing["result"]["tools"]}
    assert list(tools)[:5] == ["execute", "continue", "abort", "replan", "approval_response"]
    assert all(each["outputSchema"]["type"] == "object" for each in tools.values())
    assert tools["get_execution"]["annotations"]["readOnlyHint"] is True
    task = tools["execute"]["inputSchema"]["$defs"]["ToolTask"]
    assert {"id", "tool", "arguments", "human_review"} <= set(task["properties"])


# --- pipes --------------------------------------------------------------------------------------


CLIENT = {"name": "test", "version": "1"}


def pipes(token: str, **more: str) -> StdioServerParameters:
    arguments = ["manage.py", "mcp_stdio"]
    env = environment(HOLDPOINT_TOKEN=token, **more)
    return StdioServerParameters(command=sys.executable, args=arguments, env=env, cwd=str(ROOT))


def test_a_run_completes_over_stdio(token: Tokens) -> None:
    server = pipes(token("integrator"))

    async def flow() -> list[str]:
        async with Client(server) as client:
            assert len((await client.list_tools()).tools) == 11
            first = await client.call_tool(
                "execute", {"plan": chain("a", "b"), "config": VALIDATED}
            )
            workflow = {"workflow_id": first.structured_content["workflow_id"]}
            last = await client.call_tool("continue", workflow)
            gone = await client.call_tool("get_execution", {"workflow_id": "999999999"})
            assert gone.is_error
            return [each.structured_content["status"] for each in (first, last)]

    assert asyncio.run(flow()) == ["layer_complete", "complete"]


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
HANDSHAKE = [
    json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}).encode(),
    b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
]


def over_stdio(*lines: bytes, last: int, token_file: Path) -> list[dict[str, Any]]:
    """The server's answers to the lines, up to the answer with the id `last`."""
    command = [sys.executable, "manage.py", "mcp_stdio", "--token-file", str(token_file)]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment(LOG_LEVEL="DEBUG"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n".join(lines) + b"\n")
        process.stdin.flush()
        answers = []
        while not answers or answers[-1].get("id") != last:
            answers.append(parsed_line(process.stdout.readline()))
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(timeout=30) == 0
    return answers


@pytest.fixture
def token_file(token: Tokens, tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(token("operator") + "\n")
    return file


def test_stdout_carries_nothing_but_the_protocol(token_file: Path) -> None:
    answers = over_stdio(
        *HANDSHAKE,
        b"nonsense",
        b'{"jsonrpc": "2.0", "id": 2, "id": 3, "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params":'
        b' {"name": "execute", "arguments": {"inputs": {"a": 1, "a": 2}}}}',
        last=4,
        token_file=token_file,
    )
    assert {each.get("id") for each in answers} <= {1, 4, None}
    assert answers[-1]["result"]["content"][0]["text"].startswith("inputs.a: ")


def test_stdio_lists_the_tools_after_the_handshake_only(token_file: Path) -> None:
    listing = b'{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}'
    hello, listed = over_stdio(*HANDSHAKE, listing, last=2, token_file=token_file)
    assert hello["result"]["serverInfo"]["name"] == "holdpoint"
    assert len(listed["result"]["tools"]) == 11

    [refused] = over_stdio(listing, last=2, token_file=token_file)
    assert refused["error"]["code"] == INVALID_PARAMS
    assert refused["error"]["message"].startswith("Send initialize and notifications/initialized")


def parsed_line(line: bytes) -> dict[str, Any]:
    message = json.loads(line)
    assert message["jsonrpc"] == "2.0"
    return dict(message)


@pytest.mark.parametrize("arguments", [[], ["--token-file", os.devnull], ["--token-file", "/no"]])
def test_stdio_without_a_token_exits_with_an_error(
    people: Any, capsys: Any, arguments: list[str]
) -> None:
    with pytest.raises(CommandError, match=r"not valid|No such file"):
        call_command("mcp_stdio", *arguments)
    assert capsys.readouterr().out == ""
