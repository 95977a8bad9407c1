"""Held calls as tasks, for clients with the Tasks extension (SEP-2663)."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any, Literal

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Request, RequestParams, Result

from tests.integration.workflows.mcp_gate.conftest import (
    Agent,
    Upstream,
    decided,
    meanwhile,
    new_token,
    policy,
    text_of,
)
from tests.support.processes import wait_for
from workflows.engine.values.bounded_json import digest
from workflows.mcp_server.threads import in_thread
from workflows.models import Approval, Gate, GateCall, Hold, McpServer

pytestmark = pytest.mark.django_db(transaction=True)

WRITE = {"path": "a", "text": "hello"}


class TaskId(RequestParams):
    task_id: str


class TaskRequest(Request[TaskId, str]):
    method: str
    params: TaskId
    name_param = "taskId"


class AnyResult(Result):
    result_type: str = "complete"
    status: str = ""
    status_message: str = ""
    poll_interval_ms: int = 0
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class CreateTaskResult(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    status_message: str = ""
    ttl_ms: int | None
    poll_interval_ms: int


async def ask(session: Any, method: str, task_id: str) -> AnyResult:
    request = TaskRequest(method=method, params=TaskId(task_id=task_id))
    found: AnyResult = await session.send_request(request, AnyResult)
    return found


class Tasks(ClientExtension):
    """A client that polls a task to its end."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.created: list[CreateTaskResult] = []

    def claims(self) -> Any:
        return (ResultClaim(result_type="task", model=CreateTaskResult, resolve=self._resolve),)

    async def _resolve(self, created: CreateTaskResult, ctx: ClaimContext) -> CallToolResult:
        self.created.append(created)
        while True:
            task = await ask(ctx.session, "tasks/get", created.task_id)
            if task.status == "completed":
                return CallToolResult.model_validate(task.result)
            if task.status != "working":
                raise MCPError(code=(task.error or {}).get("code", 0), message=task.status)
            await asyncio.sleep(0.2)


def test_a_held_call_is_a_task(gate: Gate, upstream: Upstream, reviewer: User) -> None:
    tasks = Tasks()

    def decide_later() -> None:
        wait_for(lambda: tasks.created, what="a task")
        decided(reviewer)

    deciding = meanwhile(decide_later)
    result = Agent(new_token(), extensions=[tasks]).call("files__write", **WRITE)
    deciding.join()
    assert result.structured_content == {"path": "a", "bytes": 5}
    assert len(upstream.calls) == 1
    created = tasks.created[0]
    assert (created.status, created.ttl_ms) == ("working", None)
    assert "A person has to decide at http" in created.status_message


def test_an_allowed_call_is_no_task(gate: Gate) -> None:
    tasks = Tasks()
    assert not Agent(new_token(), extensions=[tasks]).call("files__look", path="a").is_error
    assert tasks.created == []


def test_a_rejection_completes_the_task_with_an_error(gate: Gate, reviewer: User) -> None:
    deciding = meanwhile(lambda: decided(reviewer, "REJECT", comment="no"))
    result = Agent(new_token(), extensions=[Tasks()]).call("files__write", **WRITE)
    deciding.join()
    assert result.is_error
    assert "rejected" in text_of(result)


def test_a_large_answer_is_kept_for_its_task_up_to_the_limit(
    gate: Gate, upstream: Upstream, reviewer: User, monkeypatch: Any
) -> None:
    large, limit = 300_000, 1_000_000  # the record of an approval has texts of 262,144 characters
    monkeypatch.setattr("workflows.mcp_gate.calls.ANSWER_BYTES", limit)
    agent = Agent(new_token(), extensions=[Tasks()])
    deciding = meanwhile(lambda: decided(reviewer))
    result = agent.call("files__export", size=large)
    deciding.join()
    assert result.structured_content == {"text": "x" * large}
    call = GateCall.objects.get()
    assert call.answer_digest == digest(json.loads(call.answer))
    approval = Approval.objects.get()
    assert (approval.result_ok, approval.result_output) == (True, None)
    assert "only the digest of the answer" in approval.result_error

    deciding = meanwhile(lambda: decided(reviewer))
    result = agent.call("files__export", size=limit)
    deciding.join()
    assert result.is_error
    assert "was executed" in text_of(result)
    assert "1,000,000 bytes (HOLDPOINT_GATE_ANSWER_BYTES)" in text_of(result)
    assert len(upstream.of("export")) == 2
    newest = GateCall.objects.latest("pk")
    assert (newest.outcome, newest.answer) == ("answered", "")


def test_an_error_of_the_protocol_fails_the_task(gate: Gate, reviewer: User) -> None:
    policy(gate, "files.refuse", "hold")
    deciding = meanwhile(lambda: decided(reviewer))
    with pytest.raises(MCPError, match="failed") as failed:
        Agent(new_token(), extensions=[Tasks()]).call("files__refuse")
    deciding.join()
    assert failed.value.code == -32055


def steps(*work: Any) -> list[AnyResult]:
    """Ask for a held call, and return the answers of methods on its task; call what is callable."""
    agent = Agent(new_token(), extensions=[Tasks()])

    async def inside() -> list[AnyResult]:
        async with agent.connect() as client:
            created: Any = await client.session.call_tool("files__write", WRITE, allow_claimed=True)
            found = []
            for each in work:
                if callable(each):
                    await in_thread(each)
                else:
                    found.append(await ask(client.session, each, created.task_id))
            return found

    return asyncio.run(inside())


def test_a_task_is_cancelled(gate: Gate, upstream: Upstream) -> None:
    acknowledged, task = steps("tasks/cancel", "tasks/get")
    assert (acknowledged.result_type, task.status) == ("complete", "cancelled")
    assert not Hold.objects.filter(status=Hold.Status.OPEN).exists()
    assert upstream.calls == []


def test_a_cancelled_task_is_not_sent_after_its_approval(
    gate: Gate, upstream: Upstream, reviewer: User
) -> None:
    found = steps(lambda: decided(reviewer), "tasks/cancel", "tasks/get", "tasks/get")
    assert [task.status for task in found[1:]] == ["cancelled"] * 2
    assert "never sent" in found[1].status_message
    assert upstream.calls == []
    call, approval = GateCall.objects.get(), Approval.objects.get()
    assert (call.sent_at, call.outcome) == (None, "not_sent")
    assert (approval.result_ok, approval.result_mismatch) == (False, False)


def test_a_server_that_cannot_be_reached_is_tried_at_intervals(
    gate: Gate, upstream: Upstream, reviewer: User
) -> None:
    command = McpServer.objects.get().command

    def attempts_end() -> None:
        wait_for(lambda: GateCall.objects.exclude(not_sent_at=None).exists(), what="an attempt")

    def come_back() -> None:
        McpServer.objects.update(command=command)

    def wait_half_a_minute() -> None:
        earlier = timezone.now() - timedelta(seconds=31)
        GateCall.objects.update(not_sent_at=earlier)

    def is_answered() -> None:
        wait_for(lambda: GateCall.objects.exclude(answered_at=None).exists(), what="an answer")

    _, away, too_soon, _, answered = steps(
        lambda: decided(reviewer), lambda: McpServer.objects.update(command="no-such-program"),
        "tasks/get", attempts_end, "tasks/get", come_back, "tasks/get", wait_half_a_minute,
        "tasks/get", is_answered, "tasks/get",
    )  # fmt: skip
    assert (away.status, away.poll_interval_ms) == ("working", 30_000)
    assert "cannot be reached" in away.status_message
    assert too_soon.status == "working"
    assert answered.status == "completed"
    assert len(upstream.calls) == 1


def test_tasks_of_others_and_clients_without_the_extension(gate: Gate) -> None:
    agent, other = Agent(new_token(), extensions=[Tasks()]), Agent(new_token())
    stranger = Agent(new_token("other"), extensions=[Tasks()])
    codes = []

    async def inside() -> None:
        async with agent.connect() as client:
            created: Any = await client.session.call_tool("files__write", WRITE, allow_claimed=True)
            for task_id in ("nonsense", "11111111-1111-4111-8111-111111111111"):
                with pytest.raises(MCPError) as missing:
                    await ask(client.session, "tasks/get", task_id)
                codes.append(missing.value.code)
        async with stranger.connect() as client:
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                with pytest.raises(MCPError) as missing:
                    await ask(client.session, method, created.task_id)
                codes.append(missing.value.code)
        async with other.connect() as client:
            with pytest.raises(MCPError) as incapable:
                await ask(client.session, "tasks/get", created.task_id)
            codes.append(incapable.value.code)

    asyncio.run(inside())
    assert codes == [-32602] * 5 + [-32021]
