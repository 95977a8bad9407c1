"""Fifty answers to one hold at one version: one wins; and the log only grows."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from django.db import DatabaseError, connection, transaction

from reviews.audit.chain import verify_chain
from reviews.audit.records import canonical_text
from reviews.decisions import services
from reviews.decisions.conflicts import Conflict
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.support.repetitions import often
from workflows.models import Execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS, SENDERS = often(5, 20), 50


def resume_at_once(execution: Execution, users: list[User]) -> list[str]:
    """What each of SENDERS concurrent decisions came to: "won" or the conflict's code."""
    hold = only_hold(execution)
    barrier = threading.Barrier(SENDERS)

    def send(number: int) -> str:
        try:
            barrier.wait(30)
            services.decide(
                services.DecisionRequest(
                    hold_id=hold.id,
                    user=users[number % len(users)],
                    decision="APPROVE" if number % 3 else "REJECT",
                    version=execution.version,
                    source="test",
                )
            )
        except Conflict as late:
            return late.code if late.state["decided"] else "nobody"
        finally:
            connection.close()
        return "won"

    with ThreadPoolExecutor(SENDERS) as pool:
        return list(pool.map(send, range(SENDERS)))


def test_one_of_fifty_concurrent_decisions_wins(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    for number in range(1, ROUNDS + 1):
        execution = start(echo("a", phase="BEFORE_EXECUTION"))
        outcomes = resume_at_once(execution, [reviewer, reviewer2])
        assert outcomes.count("won") == 1
        assert set(outcomes) <= {"won", "stale", "decided", "no_such_hold", "final"}
        assert HumanReviewRecord.objects.filter(execution=execution).count() == 1
        assert HumanReviewRecord.objects.count() == number
    rows = list(HumanReviewRecord.objects.order_by("id"))
    assert not verify_chain(rows, text_of=canonical_text).problems


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reviews_humanreviewrecord SET comment = 'changed'",
        "DELETE FROM reviews_humanreviewrecord",
        "TRUNCATE reviews_humanreviewrecord CASCADE",
    ],
)
def test_the_database_refuses_to_change_a_record(
    start: Start, reviewer: User, statement: str
) -> None:
    execution = start(echo("a", phase="BEFORE_EXECUTION"))
    services.decide(
        services.DecisionRequest(
            hold_id=only_hold(execution).id,
            user=reviewer,
            decision="APPROVE",
            version=execution.version,
            source="test",
        )
    )
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        connection.cursor().execute(statement)
    assert [each.comment for each in HumanReviewRecord.objects.all()] == [""]
