"""Calls that a person has to approve: waiting, deciding, sending once, asking again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from mcp_types import CallToolResult, ElicitResult
from rest_framework.test import APIClient

from reviews.models import HumanReviewRecord, RetentionPolicy
from reviews.retention.selectors import legal_holds_of
from reviews.retention.services import erase_batch, lift_legal_hold, place_legal_hold
from tests.integration.workflows.mcp_gate.conftest import (
    Agent,
    Upstream,
    decided,
    meanwhile,
    new_token,
    person,
    policy,
    text_of,
)
from tests.support.pages import open_page
from tests.support.processes import wait_for
from workflows.engine.values.bounded_json import digest
from workflows.executions.legal_holds import without_legal_hold
from workflows.mcp_gate import calls, sweeper_hooks
from workflows.mcp_gate.results import AWAIT_TOOL
from workflows.models import (
    ApiToken,
    Approval,
    ApprovalPolicy,
    Execution,
    Gate,
    GateCall,
    Hold,
    McpServer,
)
from workflows.permissions.tokens import revoke

pytestmark = pytest.mark.django_db(transaction=True)

WRITE = {"path": "a", "text": "hello"}
Waits = Callable[..., None]


def pending(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error
    assert "Nothing was executed yet" in text_of(result), text_of(result)
    return dict((result.meta or {})["holdpoint/pending"])


def test_an_approved_call_gets_the_answer_of_the_server(
    agent: Agent, upstream: Upstream, reviewer: User
) -> None:
    deciding = meanwhile(lambda: decided(reviewer))
    result = agent.call("files__write", **WRITE)
    deciding.join()
    assert not result.is_error
    assert [block.type for block in result.content] == ["text", "image"]
    assert result.structured_content == {"path": "a", "bytes": 5}
    assert (result.meta or {})["example/revision"] == 7
    assert upstream.calls == [{"tool": "write", **WRITE}]
    call, approval = GateCall.objects.get(), Approval.objects.get()
    assert (call.policy, call.outcome, call.approval_id) == ("hold", "answered", approval.pk)
    assert call.sent_digest == call.arguments_digest == digest(WRITE)
    assert (approval.action, approval.title, approval.risk) == (
        "files.write", "Write a file", "high",
    )  # fmt: skip
    assert (approval.result_ok, approval.result_mismatch) == (True, False)
    assert approval.result_output is not None
    assert approval.result_output["structuredContent"] == {"path": "a", "bytes": 5}
    assert call.answer_digest == digest(approval.result_output)


def test_the_server_gets_what_was_decided(agent: Agent, upstream: Upstream, reviewer: User) -> None:
    deciding = meanwhile(lambda: decided(reviewer, edits={"path": "a", "text": "hi"}))
    assert not agent.call("files__write", **WRITE).is_error
    deciding.join()
    assert upstream.calls == [{"tool": "write", "path": "a", "text": "hi"}]
    call = GateCall.objects.get()
    assert call.arguments_digest == digest(WRITE)
    assert call.sent_digest == digest({"path": "a", "text": "hi"})
    assert not Approval.objects.get().result_mismatch
    record = HumanReviewRecord.objects.get()
    assert (record.original_data, record.modified_data) == (WRITE, {"path": "a", "text": "hi"})
    admin = User.objects.create_superuser("root")
    page = open_page(admin, f"/admin/workflows/gatecall/{call.pk}/change/").text
    for asked_sent_and_answered in ('"text": "hello"', '"text": "hi"', '"bytes": 2'):
        assert asked_sent_and_answered in page


def test_a_rejection_is_an_error_with_its_reason(
    agent: Agent, upstream: Upstream, reviewer: User
) -> None:
    deciding = meanwhile(lambda: decided(reviewer, "REJECT", comment="not that file"))
    result = agent.call("files__write", **WRITE)
    deciding.join()
    assert result.is_error
    assert "rejected" in text_of(result)
    assert "not that file" in text_of(result)
    assert (result.meta or {})["holdpoint/refused"]["status"] == "rejected"
    assert upstream.calls == []


def test_asking_again_continues_the_same_review(
    agent: Agent, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(0)
    first = pending(agent.call("files__write", **WRITE))
    again = pending(agent.call("files__write", **WRITE))
    by_id = pending(agent.call(AWAIT_TOOL, id=first["id"]))
    assert first == again == by_id
    assert Hold.objects.count() == 1
    decided(reviewer)
    assert upstream.calls == []
    result = agent.call(AWAIT_TOOL, id=first["id"])
    assert result.structured_content == {"path": "a", "bytes": 5}
    assert len(upstream.calls) == 1
    # The answer was delivered: by id it stays, while the same call is a new one.
    assert agent.call(AWAIT_TOOL, id=first["id"]).content == result.content
    assert pending(agent.call("files__write", **WRITE))["id"] != first["id"]
    assert len(upstream.calls) == 1


def test_other_arguments_and_other_tokens_are_other_calls(
    agent: Agent, waits: Waits, reviewer: User
) -> None:
    waits(0)
    first = pending(agent.call("files__write", **WRITE))
    second = pending(agent.call("files__write", path="b", text="hello"))
    other = Agent(new_token())
    third = pending(other.call("files__write", **WRITE))
    assert len({each["id"] for each in (first, second, third)}) == 3
    for uid in (first["id"], "nonsense", "11111111-1111-4111-8111-111111111111"):
        result = other.call(AWAIT_TOOL, id=uid)
        assert result.is_error
        assert "no such" in text_of(result)


def test_changes_are_requested_and_made(
    agent: Agent, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(0)
    uid = pending(agent.call("files__write", **WRITE))["id"]
    decided(reviewer, "REQUEST_CHANGES", comment="shorter")
    result = agent.call("files__write", **WRITE)
    assert "shorter" in text_of(result)
    assert "Nothing was executed" in text_of(result)
    changed = {"path": "a", "text": "hi"}
    assert pending(agent.call(AWAIT_TOOL, id=uid, arguments=changed))["id"] == uid
    decided(reviewer)
    assert not agent.call(AWAIT_TOOL, id=uid).is_error
    assert upstream.calls == [{"tool": "write", **changed}]
    assert HumanReviewRecord.objects.count() == 2


def test_arguments_that_the_schema_refuses_open_no_review(agent: Agent) -> None:
    result = agent.call("files__write", path=7)
    assert result.is_error
    error = (result.meta or {})["holdpoint/error"]
    assert error["code"] == "invalid"
    assert not GateCall.objects.exists()
    assert not Hold.objects.exists()


def test_the_policy_of_the_action_applies(
    agent: Agent, upstream: Upstream, waits: Waits, gate: Gate
) -> None:
    waits(0)
    ApprovalPolicy.objects.create(pattern="files.*", groups=["admin"], quorum=2)
    pending(agent.call("files__write", **WRITE))
    hold = Hold.objects.get()
    assert (hold.groups, hold.quorum) == (["admin"], 2)


def test_the_starter_cannot_approve(waits: Waits, gate: Gate) -> None:
    waits(0)
    token = new_token("boss")
    boss = User.objects.get(username="boss")
    person("boss", "reviewer")
    pending(Agent(token).call("files__write", **WRITE))
    with pytest.raises(Exception, match="started"):
        decided(boss)


def test_progress_is_reported_while_a_person_decides(
    agent: Agent, reviewer: User, waits: Waits
) -> None:
    heard: list[Any] = []

    async def hear(*values: object) -> None:
        heard.append(values)

    def decide_later() -> None:
        wait_for(lambda: heard, what="progress")
        decided(reviewer)

    deciding = meanwhile(decide_later)
    agent.call("files__write", hear, **WRITE)
    deciding.join()
    assert "waiting for a person: http" in heard[0][2]
    assert [each[0] for each in heard] == sorted({each[0] for each in heard})


def test_a_client_that_can_open_urls_is_asked_to(
    gate: Gate, upstream: Upstream, reviewer: User
) -> None:
    opened: list[str] = []

    async def open_url(context: Any, params: Any) -> ElicitResult:
        opened.append(params.url)
        await asyncio.to_thread(meanwhile(lambda: decided(reviewer)).join)
        return ElicitResult(action="accept")

    agent = Agent(new_token(), elicitation_callback=open_url)
    result = agent.call("files__write", **WRITE)
    assert not result.is_error
    hold = Hold.objects.get()
    assert [url.endswith(f"/{hold.pk}/") for url in opened] == [True]
    assert len(upstream.calls) == 1


def test_the_server_is_away_and_the_approval_stays(
    agent: Agent, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(0)
    uid = pending(agent.call("files__write", **WRITE))["id"]
    decided(reviewer)
    row = McpServer.objects.get()
    McpServer.objects.update(command="no-such-program")
    result = agent.call(AWAIT_TOOL, id=uid)
    assert result.is_error
    assert "cannot be reached" in text_of(result)
    McpServer.objects.update(command=row.command)
    assert not agent.call(AWAIT_TOOL, id=uid).is_error
    assert len(upstream.calls) == 1


def test_a_tool_that_was_denied_meanwhile_is_not_called(
    agent: Agent, gate: Gate, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(0)
    uid = pending(agent.call("files__write", **WRITE))["id"]
    decided(reviewer)
    policy(gate, "files.write", "deny")
    assert "does not allow" in text_of(agent.call(AWAIT_TOOL, id=uid))
    assert upstream.calls == []


def test_two_that_ask_at_once_send_once(
    agent: Agent, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(20)
    deciding = meanwhile(lambda: decided(reviewer))

    async def inside() -> list[CallToolResult]:
        async with agent.connect() as one, agent.connect() as other:
            return await asyncio.gather(
                *(client.call_tool("files__write", WRITE) for client in (one, other, one, other))
            )

    found = asyncio.run(inside())
    deciding.join()
    assert [result.structured_content for result in found] == [{"path": "a", "bytes": 5}] * 4
    assert len(upstream.calls) == 1
    assert Hold.objects.count() == 1


def test_a_call_that_is_under_way_elsewhere_is_not_sent_again(
    agent: Agent, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(0)
    uid = pending(agent.call("files__write", **WRITE))["id"]
    decided(reviewer)
    assert calls.claim(agent.caller, uid) is not None
    assert calls.claim(agent.caller, uid) is None
    result = agent.call(AWAIT_TOOL, id=uid)
    assert "approved and sent" in text_of(result)
    GateCall.objects.update(sent_at=timezone.now() - timedelta(hours=1))
    result = agent.call(AWAIT_TOOL, id=uid)
    assert result.is_error
    assert "unknown" in text_of(result)
    assert "not sent again" in text_of(result)
    assert upstream.calls == []
    approval = Approval.objects.get()
    assert (approval.result_ok, GateCall.objects.get().outcome) == (False, "unknown")


def test_the_sweeper_settles_and_deletes(
    agent: Agent, reviewer: User, waits: Waits, gate: Gate
) -> None:
    waits(0)
    agent.call("files__look", path="a")
    uid = pending(agent.call("files__write", **WRITE))["id"]
    decided(reviewer)
    assert calls.claim(agent.caller, uid) is not None
    assert sweeper_hooks.settle_lost() == 0
    GateCall.objects.filter(policy="hold").update(sent_at=timezone.now() - timedelta(hours=1))
    assert sweeper_hooks.settle_lost() == 1
    assert sweeper_hooks.settle_lost() == 0
    GateCall.objects.update(created_at=timezone.now() - timedelta(days=400))
    admin = person("boss", "admin")
    hold = place_legal_hold(actor=admin, reason="Case 7", gate=gate)
    assert sweeper_hooks.delete_old() == 0
    lift_legal_hold(actor=admin, hold=hold)
    assert sweeper_hooks.delete_old() == 1
    assert GateCall.objects.get().policy == "hold"


def test_a_legal_hold_of_a_gate_keeps_the_runs_of_its_held_calls(
    agent: Agent, reviewer: User, waits: Waits, gate: Gate
) -> None:
    waits(0)
    agent.call("files__write", **WRITE)
    decided(reviewer)
    run = Approval.objects.get().execution
    Execution.objects.filter(pk=run.pk).update(finished_at=timezone.now() - timedelta(days=400))
    policy = RetentionPolicy.objects.create(keep_days=30, enabled=True)
    admin = person("boss", "admin")
    hold = place_legal_hold(actor=admin, reason="Case 7", gate=gate)
    assert [each.pk for each in legal_holds_of(run)] == [hold.pk]
    kept = without_legal_hold(Execution.objects.all(), "pk")
    assert (kept.count(), erase_batch(policy)) == (0, 0)
    lift_legal_hold(actor=admin, hold=hold)
    assert (kept.count(), erase_batch(policy)) == (1, 1)


def test_a_client_that_goes_away_after_the_approval_stops_nothing(
    agent: Agent, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(0)
    uid = pending(agent.call("files__slow_write", seconds=2))["id"]
    decided(reviewer)
    waits(20)

    async def inside() -> CallToolResult:
        async with agent.connect() as client:
            leaving = asyncio.create_task(client.call_tool(AWAIT_TOOL, {"id": uid}))
            while not upstream.of("slow_write"):
                await asyncio.sleep(0.05)
            leaving.cancel()
            await asyncio.gather(leaving, return_exceptions=True)
            return await client.call_tool(AWAIT_TOOL, {"id": uid})

    assert text_of(asyncio.run(inside())) == "written"
    assert len(upstream.of("slow_write")) == 1


def test_a_revoked_token_gets_nothing(
    agent: Agent, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(0)
    uid = pending(agent.call("files__write", **WRITE))["id"]
    decided(reviewer)
    revoke(tokens=ApiToken.objects.filter(pk=agent.caller.caller.token_id))
    result = agent.call(AWAIT_TOOL, id=uid)
    assert result.is_error
    assert upstream.calls == []


# --- other programs of the same person ------------------------------------------------------------

FORGED = {"isError": False, "content": [{"type": "text", "text": "forged"}]}


def _asking() -> APIClient:
    """A client with a token of the agent's person that asks for approvals and reads all of them."""
    return APIClient(headers={"Authorization": f"Bearer {new_token(scopes=('ask', 'read'))}"})


def test_another_token_neither_reports_nor_continues_a_call(
    agent: Agent, upstream: Upstream, reviewer: User, waits: Waits
) -> None:
    waits(0)
    uid = pending(agent.call("files__write", **WRITE))["id"]
    url, other = f"/api/v1/approvals/{Approval.objects.get().pk}/", _asking()
    assert other.post(f"{url}cancel/", {}, format="json").status_code == 403
    decided(reviewer, "REQUEST_CHANGES", comment="shorter")
    changed = {"arguments": {"path": "b", "text": "x"}}
    assert other.post(f"{url}resubmit/", changed, format="json").status_code == 403
    agent.call(AWAIT_TOOL, id=uid, arguments={"path": "a", "text": "hi"})
    decided(reviewer)
    result = {"ok": True, "output": FORGED, "arguments": {"path": "a", "text": "hi"}}
    assert other.post(f"{url}result/", result, format="json").status_code == 403
    assert upstream.calls == []
    assert agent.call(AWAIT_TOOL, id=uid).structured_content == {"path": "a", "bytes": 2}
    assert upstream.calls == [{"tool": "write", "path": "a", "text": "hi"}]


def test_another_token_does_not_read_the_answer_of_the_server(
    agent: Agent, reviewer: User, waits: Waits
) -> None:
    waits(0)
    refused = calls.Answer(GateCall.Outcome.ERROR, {"code": -1, "message": "for you"}, "for you")
    answered = calls.Answer(GateCall.Outcome.ANSWERED, {"content": []})
    for answer, status in ((answered, "completed"), (refused, "failed")):
        uid = pending(agent.call("files__write", path=status, text="a"))["id"]
        decided(reviewer)
        sending = calls.claim(agent.caller, uid)
        assert sending is not None
        calls.record(sending.call_id, answer)
        approval = Approval.objects.get(gate_call__uid=uid)
        assert approval.result_error == answer.error
        body = _asking().get(f"/api/v1/approvals/{approval.pk}/").json()
        assert (body["status"], body["result"]["error"]) == (status, "")
        assert body["result"]["output"] is None


def test_a_result_that_the_server_did_not_give_is_no_answer(
    agent: Agent, reviewer: User, waits: Waits, caplog: pytest.LogCaptureFixture
) -> None:
    waits(0)
    uid = pending(agent.call("files__write", **WRITE))["id"]
    decided(reviewer)
    sending = calls.claim(agent.caller, uid)
    assert sending is not None
    # As a version before this check allowed it.
    Approval.objects.update(result_ok=True, result_output=FORGED, result_at=timezone.now())
    real = {"isError": False, "content": [{"type": "text", "text": "real"}]}
    calls.record(sending.call_id, calls.Answer(GateCall.Outcome.ANSWERED, real))
    assert "could not be reported" in GateCall.objects.get().error
    assert "was completed by then" in caplog.text
    result = agent.call(AWAIT_TOOL, id=uid)
    assert result.is_error
    assert "forged" not in text_of(result)
