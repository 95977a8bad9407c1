"""holdpoint.ts in Deno against the same server with faults as holdpoint.py."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deno import find_deno_bin
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import approvals_server as fake
from workflows.engine.values.bounded_json import digest

HERE = Path(__file__).parent
ARGUMENTS = {"account": "DE02", "amount": 250.5}
OTHER = {"account": "XX99", "amount": 250}
APPROVED = {"id": "apr_0", "status": "approved", "arguments": ARGUMENTS, "edited": False}
SAFE = 2**53 - 1  # JavaScript has no larger exact whole numbers
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)

Call = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def deno() -> Iterator[subprocess.Popen[str]]:
    flags = ["--quiet", "--no-config", "--no-lock", "--no-remote", "--allow-net", "--allow-env"]
    command = [find_deno_bin(), "run", *flags, str(HERE / "driver.ts")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        yield process
        process.stdin.close()


def send(deno: subprocess.Popen[str], **ask: Any) -> dict[str, Any]:
    deno.stdin.write(json.dumps(ask) + "\n")
    deno.stdin.flush()
    return json.loads(deno.stdout.readline())


@pytest.fixture
def server() -> Iterator[fake.Server]:
    with fake.running() as server:
        yield server


@pytest.fixture
def call(deno: subprocess.Popen[str], server: fake.Server) -> Call:
    def run(kind: str, **more: Any) -> dict[str, Any]:
        client = {"url": server.url, "token": fake.TOKEN, "patience": 5}
        timeout = more.pop("timeout", 5)
        ask = {"args": ARGUMENTS, "client": client, **more}
        ask["more"] = {"timeout": timeout, **ask.get("more", {})}
        return send(deno, call=kind, **ask)

    return run


@settings(max_examples=40)
@given(values=st.lists(JSON_VALUES, min_size=20, max_size=20))
def test_the_digest_is_the_servers(deno: subprocess.Popen[str], values: list[Any]) -> None:
    digests = send(deno, call="digest", values=values)["value"]
    assert digests == [digest(json.loads(json.dumps(value))) for value in values]


@pytest.mark.parametrize(
    "number", [0.0, -0.0, 1e16, 1e21, 1.5e21, 1e23, -1e300, 1e-4, 1e-5, 1.5e-7, 5e-324, 0.1]
)
def test_numbers_have_one_form(deno: subprocess.Popen[str], number: float) -> None:
    assert send(deno, call="digest", values=[number])["value"] == [digest(number)]


def test_an_approval_has_the_requested_arguments(server: fake.Server, call: Call) -> None:
    more = {"risk": "low", "editable": ["/amount"], "title": "Pay"}
    assert call("approve", more=more)["value"]["arguments"] == ARGUMENTS
    assert server.requests == [
        {
            "action": {"name": "payments.transfer", "arguments": ARGUMENTS, "title": "Pay"},
            "risk": "low",
            "editable": ["/amount"],
        }
    ]


def test_edits_are_returned_unless_they_are_not_editable(server: fake.Server, call: Call) -> None:
    server.reviewer = {"status": "approved", "arguments": {"amount": 1}, "edited": True}
    assert call("approve")["value"]["arguments"] == {"amount": 1}
    assert call("approve", more={"editable": False})["error"] == "InvalidResponse"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("rejected", "Rejected"),
        ("changes_requested", "ChangesRequested"),
        ("expired", "Expired"),
        ("cancelled", "Cancelled"),
        ("failed", "Failed"),
        ("completed", "AlreadyExecuted"),
    ],
)
def test_every_other_end_throws(server: fake.Server, call: Call, status: str, error: str) -> None:
    server.reviewer = {"status": status, "comment": "too much"}
    outcome = call("guarded")
    assert (outcome["error"], outcome["reason"]) == (error, "too much")
    assert server.reports == []


def test_the_deadline_cancels_an_approval_that_nobody_can_continue(
    server: fake.Server, call: Call
) -> None:
    server.reviewer = None
    assert call("approve", timeout=1, more={"key": "k"})["error"] == "NotDecided"
    assert server.cancelled == []
    assert call("approve", timeout=1)["error"] == "NotDecided"
    assert server.cancelled == ["apr_1"]
    server.decide("apr_0", status="approved")
    assert call("approve", more={"key": "k"})["value"]["id"] == "apr_0"


def test_an_aborted_signal_ends_the_wait(server: fake.Server, call: Call) -> None:
    server.reviewer = None
    assert call("abort")["error"] == "NotDecided"
    assert server.cancelled == ["apr_0"]


def test_both_clients_derive_the_same_key(
    server: fake.Server, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workflows.approvals.client.holdpoint import Client

    approval = Client(server.url, fake.TOKEN).approve("payments.transfer", ARGUMENTS, key="k")
    assert call("approve", more={"key": "k"})["value"]["id"] == approval.id


def test_resubmit_answers_requested_changes(server: fake.Server, call: Call) -> None:
    server.reviewer = {"status": "changes_requested", "comment": "at most 100"}
    assert call("approve")["error"] == "ChangesRequested"
    server.reviewer = {"status": "approved"}
    outcome = call("resubmit", id="apr_0", args={"amount": 100})
    assert outcome["value"]["arguments"] == {"amount": 100}


def test_resubmit_output_answers_requested_changes(server: fake.Server, call: Call) -> None:
    server.reviewer = {"status": "changes_requested", "comment": "more polite"}
    action = {"output": "Hi"}
    assert call("approve", more=action)["error"] == "ChangesRequested"
    server.reviewer = {"status": "approved"}
    outcome = call("resubmitOutput", id="apr_0", output="Dear Ada")
    assert outcome["value"]["body"]["output"] == "Dear Ada"
    assert outcome["value"]["arguments"] == ARGUMENTS


@pytest.mark.parametrize(
    "fault",
    [
        fake.status(500),
        fake.status(503, Retry_After="0"),
        fake.hang_up,
        fake.cut,
        fake.text("<html>"),
        fake.text('{"id": "apr_0", "status": "appro'),
    ],
)
def test_a_passing_fault_is_retried(server: fake.Server, call: Call, fault: Any) -> None:
    server.faults = [fault, fault]
    assert call("approve")["value"]["status"] == "approved"
    assert len(server.approvals) == 1


@pytest.mark.parametrize("code", [302, 307, 400, 401, 403, 404, 409, 422])
def test_a_refusal_throws_at_once(server: fake.Server, call: Call, code: int) -> None:
    server.faults = [fake.status(code, Location=f"{server.url}/elsewhere")]
    outcome = call("approve")
    assert outcome["error"] == "Problem"
    assert outcome["message"].startswith(f"{code} some_code")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        APPROVED,
        {**APPROVED, "arguments_digest": "0" * 64},
        {**APPROVED, "arguments_digest": digest(ARGUMENTS), "id": "apr_1"},
        {**APPROVED, "arguments_digest": digest(ARGUMENTS), "arguments": None},
        {**APPROVED, "arguments_digest": digest(ARGUMENTS), "arguments": OTHER},
        {**APPROVED, "arguments_digest": digest(OTHER), "arguments": OTHER},
        {**APPROVED, "arguments_digest": digest(ARGUMENTS), "status": "APPROVED"},
        {**APPROVED, "arguments_digest": digest(ARGUMENTS), "status": True},
    ],
)
def test_a_wrong_decision_throws(server: fake.Server, call: Call, body: Any) -> None:
    pending = {"id": "apr_0", "status": "pending", "arguments_digest": digest(ARGUMENTS)}
    server.faults = [fake.text(json.dumps(pending)), fake.text(json.dumps(body))]
    assert call("guarded")["error"] == "InvalidResponse"


@pytest.mark.parametrize("fault", [fake.silent, fake.drip])
def test_a_server_that_does_not_answer_ends_at_the_deadline(
    server: fake.Server, call: Call, fault: Any
) -> None:
    server.faults = [fault] * 9
    assert call("approve", timeout=0.3, more={"key": "k"})["error"] == "NotDecided"


def test_an_unreachable_server_throws_after_the_patience(deno: subprocess.Popen[str]) -> None:
    client = {"url": "http://127.0.0.1:9", "token": "hp_x", "patience": 0.2}
    outcome = send(deno, call="approve", args={}, client=client)
    assert outcome["error"] == "Unreachable"


def test_a_guarded_function_runs_with_the_decided_arguments(
    server: fake.Server, call: Call
) -> None:
    decided = {"account": "DE02", "amount": 100}
    server.reviewer = {"status": "approved", "arguments": decided, "edited": True}
    assert call("guarded")["value"] == "100 to DE02"
    (report,) = server.reports
    assert report["ok"] is True
    assert report["output"] == "100 to DE02"
    assert report["arguments_digest"] == digest(decided)
    assert call("fail")["message"] == "no 100"
    assert server.reports[1]["error"] == "RangeError: no 100"


def test_a_person_as_a_tool(server: fake.Server, call: Call) -> None:
    answer = {"question": "Which account?", "answer": "The second"}
    server.reviewer = {"status": "approved", "arguments": answer, "edited": True}
    assert call("human", question="Which account?")["value"] == "The second"
