"""The web process dies while agents ask and wait, and while a person decides.

An agent continues by its idempotency key: it gets the same approval and the same answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User

from reviews.audit.chain import verify_chain
from reviews.audit.records import canonical_text
from reviews.models import HumanReviewRecord
from tests.integration.workflows.approvals.conftest import PAY, decided, hold_of, row_of
from tests.integration.workflows.mcp_server.web import Web
from tests.support.catalogue import stock_catalogue
from tests.support.processes import engine_processes, wait_for
from workflows.approvals.client.holdpoint import AlreadyExecuted, Client, Decision, Rejected
from workflows.common.crashpoints import EXIT_CODE, VARIABLE
from workflows.models import Approval, Hold
from workflows.permissions.tokens import create_token

pytestmark = pytest.mark.django_db(transaction=True)

NAME, KEY = "payments.transfer", "invoice-4711"
#: Enough for several starts of a web process on a busy machine.
SECONDS = 120
LESS = {**PAY, "amount": 100}


class Agent:
    """A program with the client, which asks and waits in a thread of its own."""

    def __init__(self, web: Web, token: str) -> None:
        self.client = Client(web.address, token, patience=SECONDS)
        self._pool = ThreadPoolExecutor(1)

    def asks(self) -> Future[Decision]:
        return self._pool.submit(self.client.approve, NAME, PAY, key=KEY, timeout=SECONDS)

    def reports(self, decision: Decision) -> Future[None]:
        return self._pool.submit(self.client.report, decision, output="paid", timeout=SECONDS)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


@pytest.fixture(scope="module")
def engine(django_db_setup: None) -> Iterator[None]:
    with engine_processes(workers=1):
        yield


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.end()


@pytest.fixture
def agent(engine: None, web: Web, people: Callable[..., User]) -> Iterator[Agent]:
    stock_catalogue()
    token = create_token(user=people("owner", "integrator"), name="bot", scopes=["ask"])[1]
    agent = Agent(web, token)
    yield agent
    agent.close()


def created() -> dict[str, Any]:
    """The one approval, once it is stored."""
    approval = wait_for(Approval.objects.first, what="an approval")
    return {"id": str(approval.pk), "execution_id": approval.execution_id}


def only_once() -> None:
    """There is one approval with one hold and one decision."""
    assert (Approval.objects.count(), Hold.objects.count()) == (1, 1)
    assert HumanReviewRecord.objects.count() == 1
    rows = HumanReviewRecord.objects.order_by("pk")
    assert not verify_chain(rows, text_of=canonical_text).problems


def test_an_agent_that_waits_gets_its_answer_from_the_next_process(
    web: Web, agent: Agent, reviewer: User
) -> None:
    web.start()
    answer = agent.asks()
    body = created()
    web.killed_and_started()  # before the response, or just after it
    web.end()
    decided(body, reviewer, edits=LESS)
    assert not answer.done()
    web.start()
    decision = answer.result(SECONDS)
    assert (decision.id, decision.arguments, decision.edited) == (body["id"], LESS, True)
    # Another program with the same key gets the same answer.
    assert agent.asks().result(SECONDS) == decision
    only_once()


def test_a_request_that_dies_before_its_commit_leaves_nothing(
    web: Web, agent: Agent, reviewer: User
) -> None:
    web.start(**{VARIABLE: "step.after:2"})
    answer = agent.asks()
    assert web.died() == EXIT_CODE
    assert (Approval.objects.count(), Hold.objects.count()) == (0, 0)
    web.start()
    decided(created(), reviewer, "REJECT", comment="too much")
    with pytest.raises(Rejected, match="too much"):
        answer.result(SECONDS)
    only_once()


@pytest.mark.parametrize("point", ["command.applied", "enqueue.before"])
def test_a_decision_is_stored_with_its_record_or_not_at_all(
    web: Web, agent: Agent, reviewer: User, point: str
) -> None:
    token = create_token(user=reviewer, name="t", scopes=["read", "run", "decide"])[1]
    key = uuid.uuid4().hex

    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}

    def approve() -> httpx.Response:
        url = f"{web.address}/api/v1/reviews/resume/"
        return httpx.post(url, json=resume, headers=headers, timeout=30)

    # A request for approval reaches neither point.
    web.start(**{VARIABLE: point})
    answer = agent.asks()
    hold = hold_of(created())
    resume = {
        "execution_id": str(hold.execution_id), "hold_id": hold.pk,
        "version": hold.execution.version, "decision": "APPROVE", "edits": LESS,
    }  # fmt: skip
    with pytest.raises(httpx.TransportError):
        approve()
    assert web.died() == EXIT_CODE
    stored = HumanReviewRecord.objects.count()
    assert stored == (point == "enqueue.before")
    assert Hold.objects.filter(status=Hold.Status.OPEN).count() == 1 - stored
    web.start()
    assert approve().status_code == 200
    assert answer.result(SECONDS).arguments == LESS
    only_once()


def test_a_result_is_reported_once(web: Web, agent: Agent, reviewer: User) -> None:
    web.start(**{VARIABLE: "command.applied"})
    answer = agent.asks()
    body = created()
    decided(body, reviewer)
    decision = answer.result(SECONDS)
    report = agent.reports(decision)
    assert web.died() == EXIT_CODE
    assert row_of(body).result_at is None
    web.start()
    report.result(SECONDS)
    approval = row_of(body)
    assert (approval.result_ok, approval.result_output) == (True, "paid")
    assert approval.result_mismatch is False
    with pytest.raises(AlreadyExecuted):
        agent.asks().result(SECONDS)
    only_once()
