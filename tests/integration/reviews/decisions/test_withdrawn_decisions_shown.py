"""Withdrawn decisions in exports, history, insights, REST and pages."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings
from django.urls import reverse
from rest_framework.test import APIClient

from reviews.audit import exports, history
from reviews.decisions import services, withdrawal
from reviews.insights import statistics as insights_statistics
from tests.integration.reviews.conftest import Start, echo, only_hold
from tests.integration.reviews.decisions.test_withdrawal import (
    BEFORE,
    decide,
    end_undo_time,
    take_back,
)
from tests.support.pages import HTMX, Page, browser, open_page

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_export_has_the_withdrawal_and_verifies(
    start: Start, reviewer: User, tmp_path: Any
) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    decide(hold, reviewer)
    record = take_back(hold, reviewer).record
    found = exports.create_export(history.records(reviewer), filters={}, user=reviewer)
    lines = list(found.lines("jsonl"))
    assert json.loads(lines[-2])["withdraws_id"] == record.withdraws_id
    file = tmp_path / "history.jsonl"
    script = settings.BASE_DIR / "reviews/static/reviews/verify_history.py"

    def verdict(text: str) -> tuple[int, str]:
        file.write_text(text)
        done = subprocess.run(
            [sys.executable, str(script), str(file)], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    assert verdict("".join(lines)) == (0, "")
    forged = {**json.loads(lines[-2]), "withdraws_id": None}
    code, said = verdict("".join([*lines[:-2], json.dumps(forged) + "\n", lines[-1]]))
    assert code == 1
    assert "takes back another record" in said
    assert "withdraws_id" in next(line for line in found.lines("csv") if line.startswith("id,"))


def test_history_and_insights_count_withdrawals(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    decide(hold, reviewer)
    record = take_back(hold, reviewer).record
    listed = open_page(reviewer, f"{reverse('reviews:history')}?decision=WITHDRAW")
    assert "reviewer withdrew the approval of " in listed.text
    assert "1 decision" in listed.text
    withdrawn = reverse("reviews:record", args=(record.withdraws_id,))
    assert withdrawn in open_page(reviewer, reverse("reviews:record", args=(record.pk,))).links
    before = open_page(reviewer, withdrawn)
    assert "the decision was withdrawn before the run continued" in before.text
    today = record.reviewed_at.date()
    scope = insights_statistics.Scope(reviewer, insights_statistics.Period.of(7, today=today))
    assert insights_statistics.tally(scope).total == 0, "what was taken back is no decision"
    decide(hold, reviewer, undo_seconds=0)
    assert insights_statistics.tally(scope).total == 1


def test_rest_shows_the_withdrawal(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    api = APIClient()
    api.force_authenticate(reviewer)
    body = {"execution_id": execution.pk, "hold_id": hold.id, "decision": "APPROVE"}
    answer = api.post(
        reverse("api-reviews-resume"),
        {**body, "version": execution.version, "undo_seconds": 600},
        format="json",
    )
    assert answer.status_code == 200, answer.json()
    assert answer.json()["undo_until"]
    url = reverse("api-reviews-withdraw", args=(hold.id,))
    bad = api.post(url, {"comment": 7, "why": 1}, format="json")
    assert bad.status_code == 422
    back = api.post(url, {"comment": "wrong one"}, format="json")
    assert back.status_code == 200, back.json()
    assert back.json()["what"] == "decision"
    assert back.json()["version"] == answer.json()["version"] + 1
    late = api.post(url, {}, format="json")
    assert late.status_code == 409
    assert late.json()["state"]["hold_status"] == "OPEN"
    for seconds in (-1, 601, "soon"):
        bad = api.post(
            reverse("api-reviews-resume"),
            {**body, "version": back.json()["version"], "undo_seconds": seconds},
            format="json",
        )
        assert bad.status_code == 422, seconds
        assert "undo_seconds" in json.dumps(bad.json())
    now = api.post(
        reverse("api-reviews-resume"), {**body, "version": back.json()["version"]}, format="json"
    )
    assert (now.status_code, now.json()["undo_until"]) == (200, None)
    gone = api.post(url, {}, format="json")
    assert gone.status_code == 409
    assert "can no longer be undone" in gone.json()["detail"]
    assert gone.json()["state"]["status"] == "RUNNING"


def test_the_policy_sets_the_undo_time(start: Start, reviewer: User) -> None:
    client = browser(reviewer)
    execution = start(echo("a", phase=BEFORE), policy={"undo_seconds": 600})
    hold = only_hold(execution)
    place = (execution.pk, hold.id)
    page = reverse("reviews:decision", args=place)
    answer = client.post(page, {"version": execution.version, "decision": "APPROVE"}, follow=True)
    withdraw = reverse("reviews:withdraw", args=place)
    assert withdraw in Page(answer).actions
    assert "the run continues in" in Page(answer).text
    back = Page(client.post(withdraw, follow=True))
    assert "APPROVE" in back.answers("decision")
    assert "reviewer withdrew the approval" in back.text
    late = client.post(withdraw, headers=HTMX)
    assert late.status_code == 409
    assert len(Page(late).names("alert")) == 1
    execution.refresh_from_db()
    client.post(page, {"version": execution.version, "decision": "APPROVE"})
    end_undo_time(hold)
    withdrawal.settle_due()
    decided = open_page(reviewer, page)
    assert "can no longer be undone" in decided.text
    assert withdraw not in decided.actions


def test_the_setting_is_the_default_undo_time(start: Start, reviewer: User, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "undo_seconds": 7.5}
    hold = only_hold(start(echo("a", phase=BEFORE)))
    assert services.undo_seconds_for(hold) == 7.5
    own = only_hold(start(echo("a", phase=BEFORE), policy={"undo_seconds": 0}))
    assert services.undo_seconds_for(own) == 0
