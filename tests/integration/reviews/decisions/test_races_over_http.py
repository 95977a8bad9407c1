"""Concurrent decisions as real requests to a live server, over every programmatic interface."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from django.db import connection

from reviews.audit.chain import verify_chain
from reviews.audit.records import canonical_text
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.integration.workflows.mcp_server.web import Web, call_of, post, rpc_message
from tests.support.repetitions import often
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, Hold
from workflows.permissions.tokens import create_token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS, SENDERS = often(2, 10), 24
BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"


@pytest.fixture(scope="module")
def web(django_db_setup: None) -> Iterator[Web]:
    found = Web()
    found.start()
    yield found
    found.end()


class Sender:
    """A person with a token who answers holds over HTTP."""

    def __init__(self, web: Web, user: User) -> None:
        self.name = user.get_username()
        self._web = web
        self._token = create_token(user=user, name="t", scopes=["read", "run", "decide"])[1]

    def rest(self, path: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
        url = f"http://127.0.0.1:{self._web.port}/api/v1/{path}"
        sent = {"Authorization": f"Bearer {self._token}", **headers}
        return httpx2.post(url, json=body, headers=sent, timeout=60)

    def resume(self, execution: Execution, hold: Hold, **headers: str) -> int:
        body = {
            "execution_id": str(execution.pk), "hold_id": hold.pk, "version": execution.version,
            "decision": "APPROVE",
        }  # fmt: skip
        return int(self.rest("reviews/resume/", body, **headers).status_code)

    def reject(self, execution: Execution, hold: Hold) -> int:
        body = {
            "execution_id": str(execution.pk), "hold_id": hold.pk, "version": execution.version,
            "decision": "REJECT", "comment": "no",
        }  # fmt: skip
        return int(self.rest("reviews/resume/", body).status_code)

    def command(self, execution: Execution, hold: Hold) -> int:
        body = {
            "kind": "approval_response", "hold": hold.pk, "approved": True,
            "version": execution.version,
        }  # fmt: skip
        return int(self.rest(f"executions/{execution.pk}/commands/", body).status_code)

    def bulk(self, execution: Execution, hold: Hold) -> int:
        chosen = [{"hold_id": hold.pk, "version": execution.version}]
        answer = self.rest("reviews/bulk/", {"action": "approve", "holds": chosen})
        assert answer.status_code == 200, answer.text
        return 200 if answer.json()["results"][0]["done"] else 409

    def mcp(self, execution: Execution, hold: Hold) -> int:
        arguments = {
            "workflow_id": str(execution.pk), "hold_id": hold.pk, "approved": True,
            "version": execution.version, "wait_seconds": 0,
        }  # fmt: skip
        answer = post(self._web.url, self._token, call_of("approval_response", arguments))
        result = rpc_message(answer)["result"]
        return int(result["_meta"]["holdpoint/error"]["status"]) if result.get("isError") else 200


@pytest.fixture
def senders(web: Web, reviewer: User, reviewer2: User) -> list[Sender]:
    return [Sender(web, reviewer), Sender(web, reviewer2)]


def at_once(calls: Sequence[Callable[[], int]]) -> Counter[int]:
    """How many of these calls, begun together, were answered with which status."""
    barrier = threading.Barrier(len(calls))

    def send(call: Callable[[], int]) -> int:
        barrier.wait(30)
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return Counter(pool.map(send, calls))


def chain_is_intact() -> bool:
    rows = list(HumanReviewRecord.objects.order_by("id"))
    return not verify_chain(rows, text_of=canonical_text).problems


@pytest.mark.parametrize("phase", [BEFORE, AFTER])
def test_one_of_many_requests_over_every_interface_wins(
    start: Start, senders: list[Sender], phase: str
) -> None:
    for number in range(1, ROUNDS + 1):
        execution = start(echo("a", "text", phase=phase))
        hold = only_hold(execution)
        doors = [
            getattr(sender, door)
            for sender in senders
            for door in ("resume", "reject", "command", "bulk", "mcp")
        ]
        calls = [
            lambda at=at, doors=doors, run=execution, hold=hold: doors[at % len(doors)](run, hold)
            for at in range(SENDERS)
        ]
        assert at_once(calls) == {200: 1, 409: SENDERS - 1}
        record = HumanReviewRecord.objects.get(execution=execution)
        hold.refresh_from_db()
        assert (hold.decision, hold.decided_by) == (record.decision, record.actor)
        ends = {"APPROVE": "COMPLETED", "REJECT": "ABORTED"}
        assert run_to_rest(execution.pk).status == ends[record.decision]
        assert HumanReviewRecord.objects.count() == number
    assert chain_is_intact()


def test_one_request_sent_many_times_decides_once(start: Start, senders: list[Sender]) -> None:
    execution = start(echo("a", "text", phase=AFTER))
    hold = only_hold(execution)
    headers = {"Idempotency-Key": "the-same"}
    calls = [lambda: senders[0].resume(execution, hold, **headers)] * SENDERS
    assert at_once(calls) == {200: SENDERS}
    assert HumanReviewRecord.objects.count() == 1


def test_a_quorum_counts_each_person_once(start: Start, senders: list[Sender]) -> None:
    """Both people press many times at once, at whatever version they find; two votes result."""
    execution = start(echo("a", "text", phase=AFTER, quorum=2))
    hold = only_hold(execution)

    def persists(sender: Sender) -> int:
        for _ in range(20):
            now = Execution.objects.get(pk=execution.pk)
            status = sender.resume(now, hold)
            decided = HumanReviewRecord.objects.filter(actor=sender.name).exists()
            if status == 200 or decided:
                return status
        raise AssertionError(f"{sender.name} never got through")

    statuses = at_once([lambda sender=each: persists(sender) for each in senders * 6])
    assert statuses[200] == 2
    assert set(statuses) <= {200, 409}
    actors = HumanReviewRecord.objects.order_by("actor").values_list("actor", flat=True)
    assert list(actors) == ["reviewer", "reviewer2"]
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert chain_is_intact()


def test_bulk_calls_over_the_same_holds_decide_each_once(
    start: Start, senders: list[Sender]
) -> None:
    runs = [start(echo("a", number, phase=AFTER)) for number in range(5)]
    holds = [{"hold_id": only_hold(run).pk, "version": run.version} for run in runs]
    done: Counter[str] = Counter()

    def approve_all(sender: Sender, at: int) -> int:
        turned = [*holds[at % 5 :], *holds[: at % 5]]
        answer = sender.rest("reviews/bulk/", {"action": "approve", "holds": turned})
        for each in answer.json()["results"]:
            done[each["hold_id"]] += each["done"]
        return answer.status_code

    calls = [
        lambda sender=sender, at=at: approve_all(sender, at)
        for at, sender in enumerate(senders * 4)
    ]
    assert at_once(calls) == {200: len(calls)}
    assert done == {each["hold_id"]: 1 for each in holds}
    assert HumanReviewRecord.objects.count() == len(runs)
    assert chain_is_intact()
