"""holdpoint.py against a server with faults: it retries or raises, and never invents approval."""

import ast
import asyncio
import json
import math
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import approvals_server as fake
from tests.support.processes import wait_for
from workflows.approvals.client import holdpoint
from workflows.approvals.client.holdpoint import (
    AlreadyExecuted,
    Cancelled,
    ChangesRequested,
    Client,
    Expired,
    Failed,
    HoldpointError,
    InvalidResponse,
    NotDecided,
    Problem,
    Rejected,
    Unreachable,
    human_as_tool,
    requires_approval,
)
from workflows.engine.values import bounded_json

ARGUMENTS = {"account": "DE02", "amount": 250.0}
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=12,
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[fake.Server]:
    monkeypatch.setattr(holdpoint, "_FIRST_PAUSE", 0.01)
    with fake.running() as server:
        monkeypatch.setenv("HOLDPOINT_URL", server.url)
        monkeypatch.setenv("HOLDPOINT_TOKEN", fake.TOKEN)
        yield server


def approve(**more: Any) -> holdpoint.Decision:
    return Client().approve("payments.transfer", ARGUMENTS, timeout=5, **more)


# --- the file -----------------------------------------------------------------------------------


def test_it_is_python_3_10_and_standard_library_only() -> None:
    text = Path(holdpoint.__file__).read_text()
    tree = ast.parse(text, feature_version=(3, 10))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= sys.stdlib_module_names


@given(JSON_VALUES)
def test_the_digest_is_the_servers(value: Any) -> None:
    assert holdpoint.canonical(value) == bounded_json.canonical(value)
    assert holdpoint.digest(value) == bounded_json.digest(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, {1, 2}, object()])
def test_a_value_that_json_cannot_represent_has_no_digest(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        holdpoint.digest(value)


@pytest.mark.parametrize(
    ("url", "token"),
    [("", "hp"), ("ftp://host", "hp"), ("host:8000", "hp"), ("http://h", ""), ("http://h", "a\nb")],
)
def test_a_client_needs_an_address_and_a_token(
    url: str, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDPOINT_URL", raising=False)
    monkeypatch.delenv("HOLDPOINT_TOKEN", raising=False)
    with pytest.raises(ValueError, match="HOLDPOINT_"):
        Client(url, token)


# --- decisions ----------------------------------------------------------------------------------


def test_an_approval_has_the_requested_arguments(server: fake.Server) -> None:
    decision = approve(risk="low", editable=["/amount"], title="Pay", groups=["reviewer"])
    assert decision.approved
    assert decision.arguments == ARGUMENTS
    assert server.requests == [
        {
            "action": {"name": "payments.transfer", "arguments": ARGUMENTS, "title": "Pay"},
            "risk": "low",
            "editable": ["/amount"],
            "groups": ["reviewer"],
        }
    ]


def test_an_output_makes_it_a_review_after_the_execution(server: fake.Server) -> None:
    server.reviewer = {"status": "approved", "output": "edited draft"}
    assert approve(output="draft").output == "edited draft"
    assert server.requests[0]["phase"] == "AFTER_EXECUTION"
    assert server.requests[0]["action"]["output"] == "draft"


def test_edited_arguments_are_returned(server: fake.Server) -> None:
    server.reviewer = {"status": "approved", "arguments": {"amount": 1}, "edited": True}
    assert approve().arguments == {"amount": 1}


def test_edits_of_arguments_that_are_not_editable_raise(server: fake.Server) -> None:
    server.reviewer = {"status": "approved", "arguments": {"amount": 1}, "edited": True}
    with pytest.raises(InvalidResponse, match="not editable"):
        approve(editable=False)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("rejected", Rejected),
        ("changes_requested", ChangesRequested),
        ("expired", Expired),
        ("cancelled", Cancelled),
        ("failed", Failed),
        ("completed", AlreadyExecuted),
    ],
)
def test_every_other_end_raises(server: fake.Server, status: str, kind: type[Rejected]) -> None:
    server.reviewer = {"status": status, "comment": "too much"}
    with pytest.raises(kind, match="too much") as caught:
        approve()
    assert type(caught.value) is kind
    assert caught.value.reason == "too much"
    assert caught.value.decision.id == "apr_0"


def test_a_pending_approval_is_polled_until_it_is_decided(server: fake.Server) -> None:
    server.reviewer = None
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(approve)
        wait_for(lambda: len(server.seen) == 2, what="the client polls")
        server.decide("apr_0", status="approved")
        assert answer.result().approved
    assert len(server.seen) == 2


def test_the_deadline_cancels_an_approval_that_nobody_can_continue(server: fake.Server) -> None:
    server.reviewer = None
    with pytest.raises(NotDecided):
        Client().approve("a.b", {}, timeout=0.2)
    assert server.cancelled == ["apr_0"]
    with pytest.raises(NotDecided):
        Client().approve("a.b", {}, timeout=0.2, key="k")
    assert server.cancelled == ["apr_0"]


def test_resubmit_answers_requested_changes(server: fake.Server) -> None:
    server.reviewer = {"status": "changes_requested", "comment": "at most 100"}
    with pytest.raises(ChangesRequested) as caught:
        approve()
    server.reviewer = {"status": "approved"}
    decision = Client().resubmit(caught.value.decision.id, {"amount": 100}, timeout=5)
    assert decision.arguments == {"amount": 100}


def test_resubmit_output_answers_requested_changes(server: fake.Server) -> None:
    server.reviewer = {"status": "changes_requested", "comment": "more polite"}
    with pytest.raises(ChangesRequested) as caught:
        Client().approve("mail.draft", {"to": "Ada"}, output="Hi", timeout=5)
    server.reviewer = {"status": "approved"}
    decision = Client().resubmit_output(caught.value.decision.id, "Dear Ada", timeout=5)
    assert (decision.arguments, decision.output) == ({"to": "Ada"}, "Dear Ada")


# --- resuming -----------------------------------------------------------------------------------


def test_the_same_key_continues_the_same_approval(server: fake.Server) -> None:
    server.reviewer = None
    with pytest.raises(NotDecided):
        Client().approve("a.b", {"x": 1.0}, key="k", timeout=0.2)
    server.decide("apr_0", status="approved")
    assert Client().approve("a.b", {"x": 1}, key="k", timeout=5).id == "apr_0"
    server.reviewer = {"status": "approved"}
    others = [
        Client().approve("a.b", {"x": 1}, key="other", timeout=5).id,
        Client().approve("a.b", {"x": 2}, key="k", timeout=5).id,
        Client().approve("a.c", {"x": 1}, key="k", timeout=5).id,
        Client().approve("a.b", {"x": 1}, timeout=5).id,
    ]
    assert others == ["apr_1", "apr_2", "apr_3", "apr_4"]


def test_a_reported_approval_does_not_run_again(server: fake.Server) -> None:
    assert approve(key="k").approved
    server.decide("apr_0", status="completed", result={"ok": True})
    with pytest.raises(AlreadyExecuted) as caught:
        approve(key="k")
    assert caught.value.decision.result == {"ok": True}


# --- faults -------------------------------------------------------------------------------------

PASSING = [
    fake.status(500),
    fake.status(502),
    fake.status(503, Retry_After="0"),
    fake.status(429),
    fake.hang_up,
    fake.cut,
    fake.text("<html>"),
    fake.text('{"id": "apr_0", "status": "appro'),
]


@pytest.mark.parametrize("after", [0, 1], ids=["POST", "GET"])
@pytest.mark.parametrize("fault", PASSING)
def test_a_passing_fault_is_retried(server: fake.Server, fault: Any, after: int) -> None:
    server.faults = [fault, fault]
    if after:
        server.faults = []
        first = Client().ask("a.b", {}, timeout=5)
        server.faults = [fault, fault]
        assert Client().wait(first.id, timeout=5).approved
    else:
        assert approve().approved
    assert len(server.approvals) == 1


def test_a_post_whose_response_was_lost_makes_one_approval(server: fake.Server) -> None:
    def lose(handler: fake.Handler) -> None:
        body = {"action": {"name": "payments.transfer", "arguments": ARGUMENTS}}
        server.respond(body, handler)
        handler.close_connection = True

    server.faults = [lose]
    assert approve().id == "apr_0"
    assert len(server.approvals) == 1


@pytest.mark.parametrize("code", [301, 302, 307, 308, 400, 401, 403, 404, 409, 422])
def test_a_refusal_raises_at_once(server: fake.Server, code: int) -> None:
    server.faults = [fake.status(code, Location=f"{server.url}/elsewhere")]
    with pytest.raises(Problem) as caught:
        approve()
    assert (caught.value.status, caught.value.code) == (code, "some_code")
    assert len(server.seen) == 1


APPROVED = {"id": "apr_0", "status": "approved", "arguments": ARGUMENTS, "edited": False}
DIGEST = holdpoint.digest(ARGUMENTS)
OTHER = {"account": "XX99", "amount": 250}


@pytest.mark.parametrize(
    "body",
    [
        [],
        "approved",
        {},
        {"status": "approved"},
        APPROVED,
        {**APPROVED, "arguments_digest": ""},
        {**APPROVED, "arguments_digest": "0" * 64},
        {**APPROVED, "arguments_digest": DIGEST, "id": "apr_1"},
        {**APPROVED, "arguments_digest": DIGEST, "arguments": None},
        {**APPROVED, "arguments_digest": DIGEST, "arguments": OTHER},
        {**APPROVED, "arguments_digest": holdpoint.digest(OTHER), "arguments": OTHER},
        {**APPROVED, "arguments_digest": holdpoint.digest(OTHER), "arguments": OTHER, "edited": 1},
        {**APPROVED, "arguments_digest": DIGEST, "status": "APPROVED"},
        {**APPROVED, "arguments_digest": DIGEST, "status": "allowed"},
        {**APPROVED, "arguments_digest": DIGEST, "status": True},
    ],
)
def test_a_wrong_decision_raises(server: fake.Server, body: Any) -> None:
    pending = {"id": "apr_0", "status": "pending", "arguments_digest": DIGEST}
    server.faults = [fake.text(json.dumps(pending)), fake.text(json.dumps(body))]
    with pytest.raises(InvalidResponse):
        approve()


@pytest.mark.parametrize("stale", [{}, {"arguments_digest": holdpoint.digest(OTHER)}])
def test_a_receipt_of_other_arguments_raises(server: fake.Server, stale: dict[str, str]) -> None:
    server.faults = [fake.text(json.dumps({"id": "apr_0", "status": "pending", **stale}))]
    with pytest.raises(InvalidResponse, match="other arguments"):
        approve()


@pytest.mark.parametrize("fault", [fake.silent, fake.drip])
def test_a_server_that_does_not_answer_ends_at_the_deadline(
    server: fake.Server, fault: Any
) -> None:
    server.faults = [fault] * 9
    started = time.monotonic()
    with pytest.raises(NotDecided):
        Client().approve("a.b", {}, timeout=0.3, key="k")
    assert time.monotonic() - started < 8


def test_a_body_without_end_raises(server: fake.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdpoint, "_MAX_RESPONSE_BYTES", 2**20)
    server.faults = [fake.endless]
    with pytest.raises(InvalidResponse, match="too large"):
        approve()


def test_an_unreachable_server_raises_after_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdpoint, "_FIRST_PAUSE", 0.01)
    client = Client("http://127.0.0.1:9", "hp_x", patience=0.2)
    with pytest.raises(Unreachable):
        client.approve("a.b", {})


# --- asyncio ------------------------------------------------------------------------------------


async def test_many_async_waits_do_not_block_each_other(server: fake.Server) -> None:
    server.reviewer = None
    client = Client()
    waits = [
        asyncio.ensure_future(client.approve_async("a.b", {"n": n}, timeout=10)) for n in range(40)
    ]
    while len(server.approvals) < 40:
        await asyncio.sleep(0.01)
    for approval_id in list(server.approvals):
        server.decide(approval_id, status="approved")
    decisions = await asyncio.gather(*waits)
    assert {decision.arguments["n"] for decision in decisions} == set(range(40))


async def test_a_cancelled_task_stops_its_thread(
    server: fake.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holdpoint, "_LONGEST_POLL", 1)
    server.reviewer = None
    task = asyncio.ensure_future(Client().approve_async("a.b", {}))
    while not server.approvals:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    end = time.monotonic() + 5
    while not server.cancelled and time.monotonic() < end:
        await asyncio.sleep(0.02)
    assert server.cancelled == ["apr_0"]


# --- decorator ----------------------------------------------------------------------------------


@requires_approval(name="payments.transfer", risk="low", editable=["/amount"], timeout=5)
def transfer(account: str, amount: float, note: str = "") -> str:
    return f"{amount} to {account}"


def test_a_decorated_function_runs_with_the_decided_arguments(server: fake.Server) -> None:
    decided = {"account": "DE02", "amount": 100, "note": ""}
    server.reviewer = {"status": "approved", "arguments": decided, "edited": True}
    assert transfer("DE02", amount=250) == "100 to DE02"
    assert server.requests[0]["action"]["arguments"] == {**decided, "amount": 250}
    (report,) = server.reports
    assert report["ok"] is True
    assert report["output"] == "100 to DE02"
    assert report["arguments_digest"] == holdpoint.digest(decided)


@pytest.mark.parametrize("status", ["rejected", "expired", "cancelled", "failed", "completed"])
def test_a_decorated_function_does_not_run_without_approval(
    server: fake.Server, status: str
) -> None:
    ran = []
    guarded = requires_approval(name="a.b", timeout=5)(lambda n: ran.append(n))
    server.reviewer = {"status": status, "comment": "no"}
    with pytest.raises(HoldpointError, match="no"):
        guarded(1)
    assert ran == server.reports == []


@pytest.mark.parametrize("arguments", [{}, {"n": 1, "other": 2}, {"n": 1, "self": 3}])
def test_decided_arguments_that_do_not_fit_raise(
    server: fake.Server, arguments: dict[str, int]
) -> None:
    class Tool:
        @requires_approval(timeout=5)
        def run(self, n: int) -> int:
            raise AssertionError

    server.reviewer = {"status": "approved", "arguments": arguments, "edited": True}
    with pytest.raises(InvalidResponse):
        Tool().run(1)


def test_an_error_of_the_function_is_reported_and_raised(server: fake.Server) -> None:
    @requires_approval(timeout=5)
    def fail(n: int) -> None:
        raise LookupError(f"no {n}")

    with pytest.raises(LookupError, match="no 4"):
        fail(4)
    (report,) = server.reports
    assert (report["ok"], report["error"]) == (False, "LookupError: no 4")


def test_a_report_that_is_refused_does_not_hide_the_result(server: fake.Server) -> None:
    @requires_approval(timeout=5)
    def run(n: int) -> object:
        server.faults = [fake.status(409)]
        return {n}

    assert run(1) == {1}


async def test_a_decorated_coroutine_function(server: fake.Server) -> None:
    @requires_approval(name="a.b", timeout=5, key=lambda n, **_: f"call-{n}")
    async def double(n: int, **more: int) -> int:
        await asyncio.sleep(0)
        return 2 * n + more["m"]

    assert await double(4, m=1) == 9
    assert server.requests[0]["action"]["arguments"] == {"n": 4, "m": 1}
    server.reviewer = {"status": "rejected", "comment": "no"}
    with pytest.raises(Rejected, match="no"):
        await double(5, m=1)


def test_positional_only_parameters_are_refused() -> None:
    with pytest.raises(TypeError, match="passed by name"):
        requires_approval()(lambda *numbers: numbers)


def test_a_person_as_a_tool(server: fake.Server) -> None:
    answer = {"question": "Which account?", "answer": "The second"}
    server.reviewer = {"status": "approved", "arguments": answer, "edited": True}
    assert human_as_tool(timeout=5)("Which account?", "") == "The second"
    assert server.requests[0]["editable"] == ["/answer"]
