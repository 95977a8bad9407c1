"""Backtests against a known history: reviews that rules would skip, and their decisions."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from reviews.backtests import jobs as backtests_jobs
from reviews.backtests import services as backtests_services
from reviews.backtests.totals import headline
from reviews.decisions import services
from reviews.models import Backtest, HumanReviewRecord
from reviews.queue import claims
from tests.integration.reviews.conftest import MakeUser, decide, echo, only_hold
from tests.support.catalogue import stock_catalogue
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.review_rules import sample_position
from workflows.engine.values.bounded_json import digest
from workflows.executions import dispatch
from workflows.executions.access import limit_to_workflows
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import start_execution
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, Hold, Workflow
from workflows.review_rules import publish as review_rules_publish

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

SMALL = {"name": "small", "skip_when": "inputs.value < `10`"}


class Past:
    """Runs of one workflow, decided as the tests say."""

    def __init__(self, operator: User, reviewer: User) -> None:
        stock_catalogue()
        self.operator, self.reviewer = operator, reviewer
        self.workflow = self.make("w", echo_of("a", "AFTER_EXECUTION"))

    def make(self, name: str, *tasks: dict[str, Any]) -> Workflow:
        return Workflow.objects.create(name=name, title=name, plan={"tasks": list(tasks)})

    def run(self, value: Any, *, workflow: Workflow | None = None) -> Execution:
        execution = start_execution(
            actor=self.operator, workflow=workflow or self.workflow, inputs={"value": value}
        )
        return run_to_rest(execution.pk)

    def decided(self, value: Any, *, workflow: Workflow | None = None, **answer: Any) -> Hold:
        hold = only_hold(self.run(value, workflow=workflow))
        if answer.pop("claimed", False):
            claims.claim(hold_id=hold.id, user=self.reviewer)
        given = {"decision": "APPROVE", **answer}
        version = hold.execution.version
        decide(hold, self.reviewer, version=version, source="web", **given)
        return hold

    def expired(self, value: Any) -> Hold:
        hold = only_hold(self.run(value))
        Hold.objects.filter(pk=hold.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
        assert services.expire(hold.id)
        return hold


def echo_of(name: str, phase: str, **review: Any) -> dict[str, Any]:
    more = {"timeout_seconds": 60, "on_timeout": "approve", **review}
    return echo(name, {"$from": "inputs", "select": "value"}, phase=phase, **more)


@pytest.fixture
def past(operator: User, reviewer: User) -> Past:
    return Past(operator, reviewer)


def done(user: User, workflow: Workflow, *rules: dict[str, Any], **more: Any) -> Backtest:
    made = backtests_services.start(user=user, workflow=workflow, rules=list(rules), **more)
    assert not backtests_jobs.advance(made.pk)
    made.refresh_from_db()
    assert made.status == "DONE", made.error
    return made


def test_the_report_equals_the_history(past: Past, auditor: User) -> None:
    """Eight reviews; six below ten: two as shown, one edited, two rejected, one by time."""
    past.decided(1, claimed=True)
    past.decided(2)
    edited = past.decided(3, edits=4)
    rejected = past.decided(4, decision="REJECT", comment="no")
    past.decided(5, decision="REJECT", comment="no")
    past.expired(6)
    past.decided(10, decision="REJECT", comment="no")
    past.decided(11)
    other = past.make("other", echo_of("a", "AFTER_EXECUTION"))
    past.decided(1, workflow=other)

    made = done(auditor, past.workflow, SMALL)
    report = made.report
    assert report["spared"] == {"approved": 2, "edited": 1, "rejected": 2, "expired": 1}
    assert report["kept"] == {"approved": 1, "edited": 0, "rejected": 1, "expired": 0}
    assert report["codes"] == {"condition": 6, "no_rule": 2}
    assert (made.looked, made.total) == (8, 8)
    figures = headline(report)
    assert (figures.reviews, figures.spared, figures.missed) == (8, 6, 3)
    assert [row["record"] for row in report["listed"]["edited"]] == [edited.records.get().pk]
    assert rejected.records.get().pk in [row["record"] for row in report["listed"]["rejected"]]
    assert report["by_rule"] == {"small": {"approved": 2, "edited": 1, "rejected": 2, "expired": 1}}
    assert report["tools"]["builtin.echo"]["spared"]["rejected"] == 2
    people = [h for h in past_records(past.workflow) if h.reviewer_id and h.original_data < 10]
    assert report["waited_seconds"] == pytest.approx(
        sum(r.waited_seconds for r in people), abs=0.01
    )
    assert report["desk_known"] == 1
    assert made.digest == digest(report)
    assert report["is_cut"] is False


def past_records(workflow: Workflow) -> Any:
    return HumanReviewRecord.objects.filter(execution__workflow=workflow)


def test_a_sample_picks_the_reviews_that_a_run_would_pick(past: Past, auditor: User) -> None:
    runs = [past.decided(n).execution_id for n in range(6)]
    shares = sorted(sample_position(str(run), "a") for run in runs)
    edge = (shares[2] + shares[3]) / 2
    report = done(auditor, past.workflow, {"name": "some", "sample": edge}).report
    assert report["codes"] == {"sampled_in": 3, "sampled_out": 3}


def test_required_reviews_and_rule_errors_are_counted_separately(past: Past, auditor: User) -> None:
    mixed = past.make("mixed", {**echo_of("b", "BEFORE_EXECUTION"), "permission_set": "trusted"})
    past.decided(1, workflow=mixed)
    report = done(auditor, mixed, {"name": "all", "skip_when": "`true`"}).report
    assert report["codes"] == {"high_risk": 1}
    past.decided(1)
    bad = {"name": "bad", "skip_when": "length(inputs.value) > `1`"}
    report = done(auditor, past.workflow, bad).report
    assert report["codes"] == {"error": 1}
    assert "could not be evaluated" in report["errors"][0]["why"]
    always = past.make("always", echo_of("c", "AFTER_EXECUTION", always=True))
    past.decided(1, workflow=always)
    report = done(auditor, always, {"name": "all", "skip_when": "`true`"}).report
    assert report["codes"] == {"always": 1}


def test_reviews_that_cannot_be_evaluated_are_reported(past: Past, auditor: User) -> None:
    """The inputs of one review are gone, the plan of another names its task no more."""
    for value in (1, 2, 3):
        past.decided(value)
    first, second, _ = Execution.objects.filter(workflow=past.workflow).order_by("pk")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE workflows_taskattempt SET inputs = NULL WHERE execution_id = %s", [first.pk]
        )
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "UPDATE workflows_planrevision SET plan = '{\"tasks\": []}' WHERE execution_id = %s",
            [second.pk],
        )
        cursor.execute("SET session_replication_role = origin")
    report = done(auditor, past.workflow, SMALL).report
    assert report["unknown"] == {"no_inputs": 1, "no_plan": 1}
    assert (report["reviews"], report["codes"]) == (3, {"condition": 1})
    assert sum(report["kept"].values()) == 2


def test_a_quorum_is_one_review(past: Past, auditor: User, reviewer2: User) -> None:
    pair = past.make("pair", echo_of("a", "AFTER_EXECUTION", quorum=2))
    hold = past.decided(1, workflow=pair)
    hold.refresh_from_db()
    decide(hold, reviewer2, "REJECT", source="web", comment="no")
    report = done(auditor, pair, SMALL).report
    assert report["spared"] == {"approved": 0, "edited": 0, "rejected": 1, "expired": 0}


def test_a_period_narrows_the_report_and_skipped_reviews_are_counted(
    past: Past, auditor: User
) -> None:
    past.decided(1)
    made = done(auditor, past.workflow, SMALL)
    backtests_services.publish(user=past.operator, backtest=made, source="test")
    assert past.run(2).status == "COMPLETED"
    moment = timezone.now()
    report = done(auditor, past.workflow, SMALL).report
    assert (report["reviews"], report["spared_already"]) == (1, 1)
    later = done(auditor, past.workflow, SMALL, since=moment).report
    assert (later["reviews"], later["spared_already"]) == (0, 0)
    earlier = done(auditor, past.workflow, SMALL, until=moment).report
    assert earlier["reviews"] == 1


def test_a_backtest_resumes_and_reports_progress(
    past: Past, auditor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtests_jobs, "BATCH", 2)
    for value in range(5):
        past.decided(value)
    made = backtests_services.start(user=auditor, workflow=past.workflow, rules=[SMALL])
    seen = []
    while backtests_jobs.advance(made.pk, seconds=-1):
        made.refresh_from_db()
        seen.append((made.status, made.looked, made.total))
        past.decided(100)  # came later: does not count
    assert seen == [("RUNNING", 2, 5), ("RUNNING", 4, 5)]
    made.refresh_from_db()
    assert (made.status, made.report["reviews"], made.report["codes"]) == (
        "DONE", 5, {"condition": 5},
    )  # fmt: skip


def test_a_backtest_reads_the_newest_reviews_and_reports_older_ones(
    past: Past, auditor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backtests_jobs, "MAX_REVIEWS", 3)
    for value in (1, 2, 3, 30):
        past.decided(value)
    report = done(auditor, past.workflow, SMALL).report
    assert report["is_cut"] is True
    assert report["codes"] == {"condition": 2, "no_rule": 1}


def test_a_worker_that_lost_its_claim_changes_nothing(past: Past, auditor: User) -> None:
    """Stopped between reading and writing; another one does the whole of it meanwhile."""
    past.decided(1)
    made = backtests_services.start(user=auditor, workflow=past.workflow, rules=[SMALL])
    stopped, go_on = threading.Event(), threading.Event()
    original = backtests_jobs._finish

    def slow(backtest: Backtest) -> None:
        if not stopped.is_set():
            stopped.set()
            assert go_on.wait(60)
            backtest.report["reviews"] = 99
        original(backtest)

    def late() -> None:
        try:
            backtests_jobs.advance(made.pk)
        finally:
            connection.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backtests_jobs, "_finish", slow)
        worker = threading.Thread(target=late)
        worker.start()
        assert stopped.wait(60)
        assert not backtests_jobs.advance(made.pk), "somebody is at it"
        Backtest.objects.filter(pk=made.pk).update(lease_until=timezone.now() - timedelta(1))
        backtests_jobs.advance(made.pk)
        go_on.set()
        worker.join(60)
    made.refresh_from_db()
    assert (made.status, made.report["reviews"], made.fence) == ("DONE", 1, 2)


def test_an_abandoned_backtest_is_enqueued_again(
    past: Past, auditor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(dispatch, "queue_length", lambda queue: 0)
    monkeypatch.setattr(dispatch, "enqueue", lambda job, pk, **more: sent.append(pk))
    made = backtests_services.start(user=auditor, workflow=past.workflow, rules=[SMALL])
    sent.clear()
    assert backtests_jobs.enqueue_unclaimed() == 1
    assert sent == [made.pk]
    backtests_jobs.advance(made.pk)
    assert backtests_jobs.enqueue_unclaimed() == 0


def test_a_failure_ends_the_backtest_with_its_reason(
    past: Past, auditor: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError("nothing to divide")

    monkeypatch.setattr("reviews.backtests.past_reviews.batch", broken)
    made = backtests_services.start(user=auditor, workflow=past.workflow, rules=[SMALL])
    assert not backtests_jobs.advance(made.pk)
    made.refresh_from_db()
    assert (made.status, made.error) == ("FAILED", "ZeroDivisionError: nothing to divide")
    with pytest.raises(Refused):
        backtests_services.publish(user=past.operator, backtest=made, source="test")


def test_a_report_never_changes(past: Past, auditor: User) -> None:
    made = done(auditor, past.workflow, SMALL)
    for statement in ("UPDATE reviews_backtest SET report = '{}'", "DELETE FROM reviews_backtest"):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    made.refresh_from_db()
    assert made.report["reviews"] == 0


# --- who, and what is refused ---------------------------------------------------------------------


def test_backtests_need_the_right_to_see_every_run(
    past: Past, make_user: MakeUser, auditor: User
) -> None:
    for name in ("reviewer", "integrator", "legal"):
        with pytest.raises(PermissionDenied):
            backtests_services.start(
                user=make_user(f"{name}9", name), workflow=past.workflow, rules=[SMALL]
            )
    made = done(auditor, past.workflow, SMALL)
    assert list(backtests_services.visible(past.operator)) == [made]
    assert not backtests_services.visible(past.reviewer).exists()
    assert not backtests_services.visible(limit_to_workflows(past.operator, [0])).exists()
    with pytest.raises(PermissionDenied):
        backtests_services.publish(user=auditor, backtest=made, source="test")


@pytest.mark.parametrize(
    ("rules", "path"),
    [([], "rules"), ([{"name": "x", "skip_when": "["}], "rules[0].skip_when"), ("x", "rules")],
)
def test_invalid_drafts_are_refused_with_their_path(
    past: Past, auditor: User, rules: Any, path: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        backtests_services.start(user=auditor, workflow=past.workflow, rules=rules)
    assert caught.value.problems[0].path == path


def test_a_person_has_a_bounded_number_of_backtests(past: Past, auditor: User) -> None:
    for _ in range(backtests_services.AT_ONCE):
        backtests_services.start(user=auditor, workflow=past.workflow, rules=[SMALL])
    with pytest.raises(Refused):
        backtests_services.start(user=auditor, workflow=past.workflow, rules=[SMALL])


def test_rules_are_published_only_from_the_version_they_were_drafted_on(past: Past) -> None:
    one = done(past.operator, past.workflow, SMALL)
    two = done(past.operator, past.workflow, {**SMALL, "sample": 0.5})
    made = backtests_services.publish(
        user=past.operator, backtest=one, source="web", comment="for a week"
    )
    assert (made.number, made.report, made.report_digest) == (1, one.pk, one.digest)
    with pytest.raises(review_rules_publish.RulesChanged):
        backtests_services.publish(user=past.operator, backtest=two, source="web")
    assert past.run(1).status == "COMPLETED"
    assert past.run(10).status == "PAUSED_FOR_REVIEW"
