"""Several answers given at once, and taken back at once."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.integration.reviews.queue.test_queue import BEFORE, api, waiting
from tests.support.pages import Page, browser
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def test_bulk_decisions_are_withdrawn_together(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    """By a page as long as each run's policy says; a run that went on is left as it is."""
    quick = only_hold(start(echo("q", phase=BEFORE), policy={"undo_seconds": 0}))
    two = start(echo("a", phase=BEFORE), echo("b", phase=BEFORE), policy={"undo_seconds": 600})
    holds = [quick, *two.holds.select_related("execution")]
    client = browser(reviewer)
    picked = [f"{hold.id}@{hold.execution.version}" for hold in holds]
    answer = client.post("/review/bulk/", {"action": "approve", "hold": picked})
    undo = answer.context["undo"]
    assert [each.partition("@")[0] for each in undo["holds"]] == [hold.id for hold in holds[1:]]
    assert (undo["label"], 0 < undo["seconds"] <= 600) == ("Undo 2 decisions", True)
    assert two.holds.filter(status=Hold.Status.OPEN).count() == 0

    # Somebody else's answer is not one's own to take back, whatever the page sent.
    theirs = browser(reviewer2).post(
        "/review/bulk/", {"action": "withdraw", "hold": [*undo["holds"]]}
    )
    assert [row["done"] for row in theirs.context["rows"]] == [False, False]
    back = client.post("/review/bulk/", {"action": "withdraw", "hold": [*undo["holds"], picked[0]]})
    assert back.context["summary"] == "2 decisions undone, 1 unchanged."
    assert Page(back).names("status") == ["2 decisions undone, 1 unchanged."]
    assert "can no longer be undone" in back.context["rows"][2]["message"]
    assert back.context["undo"] is None
    assert two.holds.filter(status=Hold.Status.OPEN).count() == 2
    records = HumanReviewRecord.objects.filter(execution=two)
    assert list(records.order_by("id").values_list("decision", "source")) == [
        *[("APPROVE", "bulk")] * 2,
        *[("WITHDRAW", "bulk")] * 2,
    ]


def test_bulk_decisions_are_withdrawn_over_rest(start: Start, reviewer: User) -> None:
    hold = waiting(start)
    client = api(reviewer)
    holds = [{"hold_id": hold.id, "version": hold.execution.version}]
    body = {"action": "approve", "holds": holds}
    for seconds in (-1, 601, "soon"):
        bad = client.post("/api/v1/reviews/bulk/", {**body, "undo_seconds": seconds}, format="json")
        assert (bad.status_code, bad.json()["errors"][0]["path"]) == (422, "undo_seconds")
    answer = client.post("/api/v1/reviews/bulk/", {**body, "undo_seconds": 600}, format="json")
    (result,) = answer.json()["results"]
    hold.refresh_from_db()
    assert hold.undo_until is not None
    assert datetime.fromisoformat(result["undo_until"]) == hold.undo_until
    back = client.post(
        "/api/v1/reviews/bulk/", {"action": "withdraw", "holds": holds}, format="json"
    )
    (result,) = back.json()["results"]
    assert (result["done"], result["message"], result["undo_until"]) == (True, "Undone.", None)
    record = HumanReviewRecord.objects.get(pk=result["record_id"])
    assert (record.decision, record.source) == ("WITHDRAW", "bulk")
    hold.refresh_from_db()
    assert hold.status == Hold.Status.OPEN
    # Without a time to undo nothing rests.
    now = [{"hold_id": hold.id, "version": record.version}]
    done = client.post("/api/v1/reviews/bulk/", {**body, "holds": now}, format="json")
    assert done.json()["results"][0]["undo_until"] is None
    late = client.post("/api/v1/reviews/bulk/", {"action": "withdraw", "holds": now}, format="json")
    assert late.json()["results"][0]["code"] == "gone_on"
