"""Deciding a hold: its record, and its effect on the run."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from reviews.absences.services import end_absence, set_absence
from reviews.audit.chain import GENESIS, verify_chain
from reviews.audit.records import canonical_text
from reviews.audit.verification import verify_audit
from reviews.decisions import services
from reviews.decisions.conflicts import Conflict
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import HoldNotFound, visible_hold
from reviews.models import HumanReviewRecord, PayloadKey
from reviews.people.services import set_active
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.integration.workflows.journal.test_leases import in_thread
from tests.support.groups import group_of
from workflows.engine.values.bounded_json import digest
from workflows.executions.jobs import run_to_rest
from workflows.journal.prepared_statements import execute
from workflows.models import CommandLog, Execution, Hold, TaskAttempt

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE, AFTER = "BEFORE_EXECUTION", "AFTER_EXECUTION"


def output(execution: Execution, task_id: str) -> Any:
    row = TaskAttempt.objects.get(execution=execution, task_id=task_id, settled=True)
    return row.edited_output if row.is_edited else row.output


def test_an_unedited_approval_is_recorded_and_the_run_goes_on(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    result = decide(hold, reviewer, comment="fine")
    record = HumanReviewRecord.objects.get()
    assert result.record == record
    assert (record.decision, record.trigger_phase, record.node_id) == ("APPROVE", BEFORE, "a")
    assert record.original_data == {"value": "text"}
    assert record.modified_data is None
    assert not record.is_edited
    assert (record.reviewer, record.comment) == (reviewer, "fine")
    assert record.version == result.version == execution.version + 1
    assert record.shown_digest == record.decided_digest == digest({"value": "text"})
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert output(execution, "a") == "text"


def test_the_records_of_a_run_share_its_key_and_a_decision_needs_few_statements(
    start: Start, reviewer: User
) -> None:
    execution = start(echo("a", phase=BEFORE), {**echo("b", phase=BEFORE), "depends_on": ["a"]})
    decide(only_hold(execution), reviewer, comment="one")
    run_to_rest(execution.pk)
    hold = only_hold(execution)
    with CaptureQueriesContext(connection) as statements:
        decide(hold, reviewer, comment="two")
    decided = [each["sql"] for each in statements if "reviews_" in each["sql"]]
    assert len(decided) <= 8, decided  # the chain, the key, the record, its words, the claim
    assert PayloadKey.objects.get().execution == execution
    records = HumanReviewRecord.objects.order_by("id")
    assert [(each.comment, each.original_data) for each in records] == [
        ("one", {"value": "text"}),
        ("two", {"value": "text"}),
    ]


def test_a_visitor_sees_no_review_of_a_run_that_nobody_started(start: Start) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE), actor=None))
    assert hold.execution.created_by is None
    with pytest.raises(HoldNotFound):
        visible_hold(cast("User", AnonymousUser()), hold.pk)


def test_a_decision_survives_a_migration(start: Start, reviewer: User) -> None:
    """Another session changes the type of a column that the prepared statements read."""
    hold, later = (only_hold(start(echo("a", phase=BEFORE))) for _ in range(2))
    assert decide(hold, reviewer).complete

    def migrate(length: int) -> None:
        execute(f"ALTER TABLE workflows_hold ALTER why_code TYPE varchar({length})")

    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(in_thread, migrate, 60).result(30)
        assert decide(later, reviewer).complete
    finally:
        migrate(40)


def test_an_output_whose_schema_forbids_null_is_not_set_to_null(
    start: Start, reviewer: User
) -> None:
    wait = {**echo("a", phase=AFTER), "tool": "builtin.wait", "arguments": {"seconds": 0}}
    execution = start(wait)
    with pytest.raises(ReviewInvalid) as caught:
        decide(only_hold(execution), reviewer, set_output_null=True)
    assert [each.path for each in caught.value.errors] == ["set_output_null"]
    assert only_hold(execution).status == "OPEN"


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ("write_file", "../x"),
        ("write_file", "/etc/passwd"),
        ("write_file", "a/.git/config"),
        ("write_file", "."),
        ("write_file", "a\nb"),
        ("read_file", "../x"),
        ("list_directory", "../../x"),
        ("list_directory", ""),
    ],
)
def test_a_path_that_the_tool_would_refuse_is_refused_at_once(
    start: Start, reviewer: User, tool: str, path: str
) -> None:
    arguments = {"path": "kept.txt", **({"content": "x"} if tool == "write_file" else {})}
    execution = start(
        {
            "id": "a",
            "type": "tool",
            "tool": f"builtin.{tool}",
            "arguments": arguments,
            "human_review": {"trigger_phase": BEFORE},
        }
    )
    with pytest.raises(ReviewInvalid) as caught:
        decide(only_hold(execution), reviewer, edits={"path": path})
    assert [each.path for each in caught.value.errors] == ["edits.path"]
    assert only_hold(execution).status == "OPEN"
    assert not HumanReviewRecord.objects.exists()


def logged(execution: Execution) -> list[tuple[str, str, str, str]]:
    """What the command log says of an execution, oldest first, without its reasons."""
    rows = CommandLog.objects.filter(execution=execution).order_by("id")
    return list(rows.values_list("kind", "actor", "source", "outcome"))


def test_every_refused_decision_is_logged_with_user_source_and_reason(
    start: Start, reviewer: User, auditor: User, make_user: MakeUser
) -> None:
    execution = start(echo("a", phase=AFTER))
    hold = only_hold(execution)
    stranger = make_user("stranger")
    refused = (
        (reviewer, {"version": execution.version + 1}, "moved on", "refused"),
        (reviewer, {"decision": "PERHAPS"}, "APPROVE or REJECT", "invalid"),
        (reviewer, {"decision": "REJECT", "edits": 1}, "takes no edits", "invalid"),
        (reviewer, {"edits": float("nan")}, "edits", "invalid"),
        (reviewer, {}, "", "applied"),
        (reviewer, {}, "no longer open", "refused"),
        (auditor, {}, "Auditors", "refused"),
        (stranger, {}, "not visible", "refused"),
    )
    for person, more, _why, outcome in refused:
        if outcome == "applied":
            decide(hold, person, **more)
        else:
            with pytest.raises((Conflict, ReviewInvalid, NotAllowed, services.HoldNotFound)):
                decide(hold, person, **more)
    assert logged(execution) == [
        ("approval_response", person.username, "test", outcome) for person, _, _, outcome in refused
    ]
    details = CommandLog.objects.order_by("id").values_list("detail", flat=True)
    for (_, _, why, _), detail in zip(refused, details, strict=True):
        assert re.search(why, detail), (why, detail)


def test_an_applied_decision_is_logged_in_the_transaction_that_records_it(
    start: Start, reviewer: User
) -> None:
    execution = start(echo("a", phase=BEFORE))
    result = decide(only_hold(execution), reviewer)
    row = CommandLog.objects.get()
    assert (row.outcome, row.version, row.actor) == ("applied", result.version, "reviewer")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT xmin::text FROM workflows_commandlog),"
            " (SELECT xmin::text FROM reviews_humanreviewrecord)"
        )
        assert len(set(cursor.fetchone())) == 1


def test_an_edit_without_a_change_is_no_edit(start: Start, reviewer: User) -> None:
    result = decide(only_hold(start(echo("a", phase=BEFORE))), reviewer, edits={"value": "text"})
    assert not result.edited
    assert result.record.modified_data is None


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        ({"seconds": "soon"}, "edits.seconds"),
        ({"unknown": 1}, "edits.unknown"),
        (["seconds"], "edits"),
        ({"seconds": float("inf")}, "edits.seconds"),
        ({"seconds": 0, "note": "a\0b"}, "edits.note"),
    ],
)
def test_a_bad_edit_names_its_field_and_leaves_the_hold_open(
    start: Start, reviewer: User, edits: Any, path: str
) -> None:
    task = {
        "id": "w",
        "type": "tool",
        "tool": "builtin.wait",
        "arguments": {"seconds": 0},
        "human_review": {"trigger_phase": BEFORE},
    }
    execution = start(task)
    with pytest.raises(ReviewInvalid) as caught:
        decide(only_hold(execution), reviewer, edits=edits)
    assert path in [error.path for error in caught.value.errors]
    assert only_hold(execution).status == "OPEN"
    assert not HumanReviewRecord.objects.exists()


def test_a_rejection_takes_no_edits(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    with pytest.raises(ReviewInvalid):
        decide(hold, reviewer, "REJECT", edits={"value": 1})
    assert not decide(hold, reviewer, "REJECT", edits=None).edited


def test_a_rejection_aborts_and_its_version_is_the_one_reached(
    start: Start, reviewer: User
) -> None:
    execution = start(echo("a", phase=BEFORE))
    result = decide(only_hold(execution), reviewer, "REJECT", comment="no")
    execution.refresh_from_db()
    assert (execution.status, result.status) == ("ABORTED", "ABORTED")
    assert result.record.version == execution.version


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_two_holds_at_one_boundary_in_either_order(
    start: Start, reviewer: User, order: tuple[str, str]
) -> None:
    execution = start(
        echo("a", "from a", phase=BEFORE),
        echo("b", "from b", phase=AFTER),
        echo("sibling"),
        echo("end", {"a": {"$from": "a"}, "b": {"$from": "b"}, "s": {"$from": "sibling"}}),
    )
    holds = {hold.task_id: hold for hold in execution.holds.all()}
    edits = {"a": {"value": "edited a"}, "b": "edited b"}
    for name in order:
        decide(holds[name], reviewer, edits=edits[name])
        assert not output_exists(execution, "end")
    assert run_to_rest(execution.pk).status == "COMPLETED"
    assert output(execution, "end") == {"a": "edited a", "b": "edited b", "s": "text"}
    tries = TaskAttempt.objects.filter(execution=execution).values_list("task_id", flat=True)
    assert sorted(tries) == ["a", "b", "end", "sibling"]


def output_exists(execution: Execution, task_id: str) -> bool:
    return TaskAttempt.objects.filter(execution=execution, task_id=task_id).exists()


def test_a_stale_version_error_has_the_current_state(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    with pytest.raises(Conflict) as caught:
        decide(hold, reviewer, version=execution.version - 1)
    assert caught.value.code == "stale"
    assert caught.value.state["version"] == execution.version
    assert caught.value.state["holds"][0]["id"] == hold.id


def test_a_late_decision_names_the_first_decider(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    execution = start(echo("a", phase=BEFORE))
    hold = only_hold(execution)
    decide(hold, reviewer)
    with pytest.raises(Conflict) as caught:
        decide(hold, reviewer2, "REJECT", version=execution.version)
    assert caught.value.state["decided"][0]["by"] == "reviewer"
    assert HumanReviewRecord.objects.count() == 1


def test_a_quorum_counts_people_and_each_vote_has_its_record(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    execution = start(echo("a", phase=BEFORE, quorum=2))
    hold = only_hold(execution)
    first = decide(hold, reviewer)
    assert not first.complete
    with pytest.raises(Conflict) as caught:
        decide(hold, reviewer)
    assert caught.value.code == "already_voted"
    with pytest.raises(Conflict):
        decide(hold, reviewer, "REJECT")
    with pytest.raises(ReviewInvalid) as refused:
        decide(hold, reviewer2, edits={"value": "another"})
    assert refused.value.errors[0].path == "edits"
    second = decide(hold, reviewer2)
    assert second.complete
    assert [row.actor for row in HumanReviewRecord.objects.order_by("id")] == [
        "reviewer",
        "reviewer2",
    ]
    run_to_rest(execution.pk)
    assert output(execution, "a") == "text"


@pytest.mark.parametrize("loss", ["account", "group", "auditor"])
def test_a_quorum_does_not_count_who_lost_the_right_since(
    start: Start, make_user: MakeUser, reviewer: User, reviewer2: User, loss: str
) -> None:
    third, fourth = make_user("third", "reviewer"), make_user("fourth", "reviewer")
    execution = start(echo("a", phase=BEFORE, quorum=3))
    hold = only_hold(execution)
    decide(hold, reviewer)
    decide(hold, reviewer2)
    match loss:
        case "account":
            set_active(actor=make_user("boss", is_superuser=True), person=reviewer, active=False)
        case "group":
            reviewer.groups.clear()
        case "auditor":
            reviewer.groups.add(group_of("auditor"))
    assert not decide(hold, third).complete
    hold.refresh_from_db()
    assert (hold.status, hold.approvals) == (Hold.Status.OPEN, ["reviewer2", "third"])
    withdrawn = HumanReviewRecord.objects.get(decision="WITHDRAW")
    assert (withdrawn.actor, withdrawn.withdraws and withdrawn.withdraws.reviewer) == (
        "system",
        reviewer,
    )
    assert "reviewer" in withdrawn.comment
    assert decide(hold, fourth).complete
    assert verify_audit().problems == ()


def test_a_vote_of_a_delegate_lapses_with_the_right_of_the_absent_person(
    start: Start, make_user: MakeUser, reviewer: User, reviewer2: User
) -> None:
    delegate, now = make_user("delegate", "legal"), timezone.now()
    absence = set_absence(
        actor=reviewer,
        user=reviewer,
        delegate=delegate,
        begins_at=now,
        ends_at=now + timedelta(hours=1),
    )
    first, second = (only_hold(start(echo(name, phase=BEFORE, quorum=2))) for name in "ab")
    decide(first, delegate)
    decide(second, delegate)
    end_absence(actor=reviewer, absence=absence)
    assert decide(first, reviewer2).complete
    reviewer.groups.clear()
    assert not decide(second, reviewer2).complete


def test_a_quorum_takes_no_edits(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE, quorum=2)))
    with pytest.raises(ReviewInvalid) as caught:
        decide(hold, reviewer, edits={"value": "mine"})
    assert caught.value.errors[0].path == "edits"
    assert not HumanReviewRecord.objects.exists()


# --- rights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["auditor", "operator", "integrator", "admin"])
def test_only_members_of_its_groups_decide(start: Start, make_user: MakeUser, group: str) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    person = make_user("somebody", group)
    expected = services.HoldNotFound if group == "integrator" else NotAllowed
    with pytest.raises(expected):
        decide(hold, person)
    assert not HumanReviewRecord.objects.exists()


def test_a_hold_for_admins_is_decided_by_admins(
    start: Start, make_user: MakeUser, reviewer: User
) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE, groups=["admin"])))
    with pytest.raises(services.HoldNotFound):
        decide(hold, reviewer)
    assert decide(hold, make_user("boss", "admin")).complete


def test_an_auditor_decides_nothing_even_as_a_reviewer(start: Start, make_user: MakeUser) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    with pytest.raises(NotAllowed) as caught:
        decide(hold, make_user("both", "auditor", "reviewer"))
    assert caught.value.code == "auditor"


def test_a_superuser_is_no_reviewer(start: Start, make_user: MakeUser) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    with pytest.raises(NotAllowed):
        decide(hold, make_user("root", is_superuser=True))


def test_rights_are_checked_at_decision_time(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    reviewer.groups.clear()
    with pytest.raises(services.HoldNotFound):
        decide(hold, reviewer)


def test_the_starter_may_reject_and_not_approve(start: Start, reviewer: User) -> None:
    execution = start(echo("a", phase=BEFORE), actor=reviewer)
    hold = only_hold(execution)
    with pytest.raises(NotAllowed) as caught:
        decide(hold, reviewer)
    assert caught.value.code == "four_eyes"
    assert decide(hold, reviewer, "REJECT").status == "ABORTED"


def test_four_eyes_can_be_switched_off(start: Start, make_user: MakeUser) -> None:
    both = make_user("both", "reviewer", "operator")
    execution = start(echo("a", phase=BEFORE), actor=both, policy={"four_eyes": False})
    assert decide(only_hold(execution), both).complete


class _Token:
    def __init__(self, *scopes: str) -> None:
        self.scopes = scopes


def test_a_token_needs_the_scope(start: Start, reviewer: User) -> None:
    hold = only_hold(start(echo("a", phase=BEFORE)))
    with pytest.raises(NotAllowed):
        decide(hold, reviewer, token=_Token("read", "run"))
    assert decide(hold, reviewer, token=_Token("decide")).complete


# --- the chain ------------------------------------------------------------------------------------


def test_records_are_one_chain(start: Start, reviewer: User) -> None:
    for _ in range(3):
        decide(only_hold(start(echo("a", 1.0, phase=BEFORE))), reviewer, edits={"value": 1e16})
    rows = list(HumanReviewRecord.objects.order_by("id"))
    assert rows[0].previous_hash == GENESIS
    report = verify_chain(rows, text_of=canonical_text)
    assert not report.problems
    rows[1].stored_comment = "another"
    assert verify_chain(rows, text_of=canonical_text).problems
    del rows[1]
    assert verify_chain(rows, text_of=canonical_text).problems
