"""Erasing the data of old runs: what goes, what stays, and what stops it."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.cache import cache
from django.db import DatabaseError, connection, transaction
from django.http import Http404
from django.utils import timezone

from config.database.roles import grant
from config.devserver.embedded.layout import APP_ROLE, SUPERUSER
from reviews.audit.signing import public_key
from reviews.audit.verification import verify_audit
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.models import (
    HumanReviewRecord,
    LegalHold,
    Notice,
    PayloadKey,
    RetentionEntry,
    RetentionPolicy,
    ReviewClaim,
)
from reviews.notifications.sweeper_hooks import forget_old
from reviews.retention import selectors, services
from reviews.retention.selectors import preview
from reviews.retention.services import (
    AlreadyErased,
    erase_batch,
    erase_due,
    lift_legal_hold,
    place_legal_hold,
    save_policy,
)
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold
from tests.support.catalogue import stock_catalogue
from tests.support.pages import browser
from tests.support.servers import database_url
from workflows.common import crashpoints
from workflows.common.secret_encryption import encrypt
from workflows.engine.protocol.decide import Refused
from workflows.engine.protocol.ports import TaskFailed
from workflows.executions.access import visible_to
from workflows.executions.definitions import delete_workflow
from workflows.executions.jobs import run_to_rest
from workflows.executions.services import fork_execution, start_execution
from workflows.models import (
    Checkpoint,
    CommandLog,
    Execution,
    ExecutionEvent,
    Gate,
    Grant,
    Hold,
    LearningAttempt,
    PlanRevision,
    SecurityEvent,
    TaskAttempt,
    WebhookDelivery,
    WebhookEndpoint,
    Workflow,
)
from workflows.tools.run_folders import run_folder
from workflows.webhooks.services import delete_old_deliveries

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

VERIFIER = Path(str(finders.find("reviews/verify_history.py")))
BEFORE = "BEFORE_EXECUTION"
SECRET = "what the customer wrote"
JOURNAL = (ExecutionEvent, PlanRevision, TaskAttempt, Checkpoint, CommandLog)


@pytest.fixture
def admin(make_user: MakeUser) -> "User":
    return make_user("admin", "admin", is_staff=True, is_superuser=True)


@pytest.fixture(autouse=True)
def _looks_at_once() -> Iterator[None]:
    cache.delete(services._PAUSED)
    yield
    crashpoints.set_observer(None)


@pytest.fixture
def policy() -> RetentionPolicy:
    return RetentionPolicy.objects.create(keep_days=30, enabled=True)


def age(*runs: Execution, days: int = 31) -> None:
    ids = [each.pk for each in runs]
    ended = timezone.now() - timedelta(days=days)
    assert Execution.objects.filter(pk__in=ids).update(finished_at=ended) == len(ids)


def decided(start: Start, reviewer: "User", text: str = SECRET) -> Execution:
    """An ended run with a record."""
    run = start({**echo("a", text, phase=BEFORE), "title": "Write to the customer"})
    assert only_hold(run).task_title == "Write to the customer"
    decide(only_hold(run), reviewer, comment="fine")
    return run_to_rest(run.pk)


def _stop(*_: Any, **__: Any) -> None:
    raise OSError("stopped in the middle")


def test_the_files_of_an_erased_run_are_deleted(
    start: Start, policy: RetentionPolicy, settings: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Also when the process ends between the erasure and the deletion, or in the middle of it."""
    settings.HOLDPOINT = {**settings.HOLDPOINT, "file_root": tmp_path}
    old, recent = start(echo("a")), start(echo("a"))
    for run in (old, recent):
        (run_folder(run.pk) / "sub").mkdir()
        (run_folder(run.pk) / "sub" / "secret.txt").write_text(SECRET)
    age(old)
    with monkeypatch.context() as patch:
        patch.setattr("workflows.sandbox.rundir.os.rmdir", _stop)
        assert erase_due() == 1
    assert (tmp_path / "runs" / str(old.pk)).exists(), "not deleted to its end"
    cache.clear()
    assert erase_due() == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [str(recent.pk)]
    with pytest.raises(TaskFailed, match="its data was erased"):
        run_folder(old.pk)


def test_a_run_without_records_is_deleted(start: Start, policy: RetentionPolicy) -> None:
    old, new = start(echo("a", SECRET)), start(echo("a"))
    age(old)
    assert erase_batch(policy) == 1
    assert erase_batch(policy) == 0
    assert not Execution.objects.filter(pk=old.pk).exists()
    for model in JOURNAL:
        assert not model._default_manager.filter(execution_id=old.pk).exists(), model
    assert new.revisions.count() == 1
    entry = RetentionEntry.objects.get(kind="erased")
    assert (entry.kind, entry.actor, entry.executions) == ("erased", "system", [old.pk])
    assert entry.subject == "All other runs: 30 days"
    assert entry.detail["runs"] == entry.detail["deleted_runs"] == 1
    assert entry.detail["executionevent"] > 1
    assert verify_audit().problems == ()


def test_records_stay_and_the_chain_is_whole(
    start: Start, reviewer: "User", auditor: "User", policy: RetentionPolicy, tmp_path: Path
) -> None:
    run = decided(start, reviewer)
    before = HumanReviewRecord.objects.get()
    age(run)
    assert erase_batch(policy) == 1
    run.refresh_from_db()
    assert run.erased_at is not None
    assert (run.state, run.inputs, run.context) == ({}, {}, {})
    hold = Hold.objects.get()
    assert (hold.payload, hold.task_title) == (None, "")
    for model in JOURNAL:
        assert not model._default_manager.filter(execution_id=run.pk).exists(), model
    record = HumanReviewRecord.objects.get()
    assert (record.hash, record.canonical) == (before.hash, before.canonical)
    assert verify_audit().problems == ()
    assert not visible_to(auditor).exists()
    # The pages and REST.
    client = browser(auditor)
    page = client.get(f"/runs/{run.pk}/")
    assert page.status_code == 410
    assert "under the retention policy “All other runs: 30 days”" in page.content.decode()
    assert client.get(f"/api/v1/executions/{run.pk}/").status_code == 404
    assert client.get(f"/api/v1/executions/{run.pk}/events/").status_code == 404
    assert client.get(f"/review/{run.pk}/{record.hold_id}/").status_code == 404
    shown = client.get(f"/history/{record.pk}/").content.decode()
    assert "Erased on" in shown
    assert "the record is intact" in shown
    assert "fine" in client.get("/history/").content.decode()
    for address in ("/runs/", "/review/?tab=decided"):
        assert client.get(address).status_code == 200, address
    exported = tmp_path / "history.jsonl"
    exported.write_bytes(
        b"".join(client.get("/history/export/", {"as": "jsonl"}).streaming_content)  # type: ignore[arg-type]
    )
    done = subprocess.run(
        [sys.executable, VERIFIER, exported], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_other_pages_list_what_is_left(
    start: Start, reviewer: "User", admin: "User", policy: RetentionPolicy
) -> None:
    run = decided(start, reviewer)
    age(run)
    assert erase_batch(policy) == 1
    client = browser(admin)
    for address in (
        "/review/", "/runs/", "/history/", "/insights/", "/search/?q=a",
        "/admin/workflows/execution/", "/admin/workflows/hold/", "/admin/workflows/commandlog/",
        "/api/v1/executions/", "/api/v1/reviews/history/",
    ):  # fmt: skip
        assert client.get(address).status_code in (200, 404), address
    assert client.get(f"/admin/workflows/execution/{run.pk}/change/").status_code == 302
    assert "approved a" in client.get("/admin/reviews/humanreviewrecord/").content.decode()


# --- payloads of records --------------------------------------------------------------------------


def test_payloads_of_records_are_stored_encrypted(start: Start, reviewer: "User") -> None:
    decided(start, reviewer)
    record = HumanReviewRecord.objects.get()
    assert (record.original_data, record.comment) == ({"value": SECRET}, "fine")
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT row_to_json(r)::text, row_to_json(k)::text FROM reviews_humanreviewrecord r"
            " JOIN reviews_payloadkey k ON k.execution_id = r.execution_id"
        )
        text = "".join(cursor.fetchone())
    assert SECRET not in text
    assert "fine" not in text
    assert '"comment_digest"' in record.canonical


def test_payloads_of_records_are_erased_with_their_key(
    start: Start, reviewer: "User", auditor: "User", policy: RetentionPolicy, tmp_path: Path
) -> None:
    run, kept = decided(start, reviewer), decided(start, reviewer, "another text")
    age(run)
    RetentionPolicy.objects.update(erase_records=True)
    assert erase_batch(policy) == 1
    assert not PayloadKey.objects.filter(execution=run).exists()
    record, other = HumanReviewRecord.objects.order_by("id")
    assert (record.original_data, record.comment, record.is_erased) == (None, "", True)
    assert (other.original_data, other.is_erased) == ({"value": "another text"}, False)
    assert verify_audit().problems == ()
    client = browser(auditor)
    shown = client.get(f"/history/{record.pk}/").content.decode()
    assert shown.count("Erased on") >= 2
    assert "the record is intact" in shown
    body = client.get(f"/api/v1/reviews/history/{record.pk}/").json()
    assert (body["original_data"], body["comment"], body["is_erased"]) == (None, "", True)
    found = client.get("/history/", {"q": "fine"}).content.decode()
    assert f"/history/{other.pk}/" in found
    assert f"/history/{record.pk}/" not in found
    exported = tmp_path / "history.jsonl"
    exported.write_bytes(
        b"".join(client.get("/history/export/", {"as": "jsonl"}).streaming_content)  # type: ignore[arg-type]
    )
    assert SECRET not in exported.read_text()
    key = ["--key", public_key()]
    done = subprocess.run(
        [sys.executable, VERIFIER, exported, *key], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "of 1 records were erased on" in done.stdout
    assert "under policy “All other runs: 30 days”" in done.stdout
    assert client.get("/history/export/", {"as": "csv"}).status_code == 200
    assert place_of_similar(kept, reviewer) is not None


def granted(start: Start, reviewer: "User") -> Execution:
    """An ended run in which a person granted a permission."""
    program = f'open("note.txt", "w").write({SECRET!r})'
    run = start({"id": "a", "type": "code_execution", "language": "python", "code": program})
    decide(only_hold(run), reviewer, comment=f"write {SECRET}", grant_scope="task")
    assert Grant.objects.get(execution=run).why == f"write {SECRET}"
    return run_to_rest(run.pk)


def test_no_table_keeps_what_people_saw_or_wrote(
    start: Start, reviewer: "User", policy: RetentionPolicy
) -> None:
    run = granted(start, reviewer)
    assert "workflows_grant" in tables_with(SECRET)
    age(run)
    RetentionPolicy.objects.update(erase_records=True)
    assert erase_batch(policy) == 1
    assert tables_with(SECRET) == []
    assert verify_audit().problems == ()


def test_the_product_does_not_change_the_reason_of_a_grant(
    start: Start, reviewer: "User", app_url: str
) -> None:
    granted(start, reviewer)
    with psycopg.connect(app_url, autocommit=True) as session:
        for value in ("", "x"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute("UPDATE workflows_grant SET why = %s", [value])
    with pytest.raises(DatabaseError):  # the owner too can only empty it
        Grant.objects.update(why="x")
    assert Grant.objects.update(why="") == 1


def tables_with(text: str) -> list[str]:
    """The tables of the database that have the text in a row."""
    with connection.cursor() as cursor:
        found = []
        for table in connection.introspection.table_names(cursor):
            name = connection.ops.quote_name(table)
            cursor.execute(f"SELECT FROM {name} AS row WHERE row::text LIKE %s", [f"%{text}%"])
            if cursor.rowcount:
                found.append(table)
    return found


def place_of_similar(run: Execution, reviewer: "User") -> Any:
    """A further review of the same tool lists similar decisions, without erased ones."""
    from reviews.decisions.similar_decisions import similar_decisions

    hold = Hold.objects.filter(execution=run).get()
    hold.payload = {"value": "another text"}
    return similar_decisions(reviewer, hold)


def test_records_from_before_the_encryption_are_emptied(
    start: Start, reviewer: "User", policy: RetentionPolicy, plain_records: None
) -> None:
    run = decided(start, reviewer)
    record = HumanReviewRecord.objects.get()
    assert (record.sealed, record.original_data) == ("", {"value": SECRET})
    assert verify_audit().problems == ()
    age(run)
    RetentionPolicy.objects.update(erase_records=True)
    assert erase_batch(policy) == 1
    record = HumanReviewRecord.objects.get()
    assert (record.original_data, record.comment, record.is_erased) == (None, "fine", True)
    assert verify_audit().problems == ()


def test_a_key_that_was_deleted_by_hand_is_reported(start: Start, reviewer: "User") -> None:
    run = decided(start, reviewer)
    with connection.cursor() as cursor:
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute("DELETE FROM reviews_payloadkey")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("DELETE FROM reviews_payloadkey")
        cursor.execute("RESET session_replication_role")
    assert verify_audit().problems == (
        f"erased: the retention log does not say that the records of run {run.pk} were erased",
    )


def test_an_altered_payload_is_named(start: Start, reviewer: "User") -> None:
    decided(start, reviewer)
    record = HumanReviewRecord.objects.get()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE reviews_humanreviewrecord SET sealed = 'gAAAAAB'")
        cursor.execute("RESET session_replication_role")
    (problem,) = verify_audit().problems
    assert f"record {record.pk} shows other data" in problem


def test_a_key_of_another_secret_key_does_not_stop_the_verification(
    start: Start, reviewer: "User", settings: Any
) -> None:
    decided(start, reviewer)
    other = decided(start, reviewer)
    settings.SECRET_KEY, secret_key = "of another installation", settings.SECRET_KEY
    key = encrypt("no key")
    settings.SECRET_KEY = secret_key
    by_hand("UPDATE reviews_payloadkey SET key = %s WHERE execution_id = %s", key, other.pk)
    first, second = HumanReviewRecord.objects.order_by("id").values_list("pk", flat=True)
    report = verify_audit()
    assert report.records == 2
    assert report.problems == (
        f"unreadable: the payload of record {second} cannot be decrypted with SECRET_KEY",
    )
    by_hand("UPDATE reviews_humanreviewrecord SET actor = 'x' WHERE id = %s", first)
    assert f"record {first} shows other data" in verify_audit().problems[0]


def by_hand(statement: str, *values: Any) -> None:
    """Change the database past its triggers, as its owner can."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement, values)
        cursor.execute("RESET session_replication_role")


def erased_record(start: Start, reviewer: "User") -> HumanReviewRecord:
    age(decided(start, reviewer))
    policy = RetentionPolicy.objects.create(keep_days=30, enabled=True, erase_records=True)
    assert erase_batch(policy) == 1
    return HumanReviewRecord.objects.get()


def verified_file(lines: list[dict[str, Any]], path: Path) -> tuple[int, str]:
    """Write an export whose last line fits its text, and check it without a key."""
    text = "".join(json.dumps(line) + "\n" for line in lines[:-1])
    end = {**lines[-1], "digest": hashlib.sha256(text.encode()).hexdigest()}
    path.write_text(f"{text}{json.dumps(end)}\n")
    done = subprocess.run(
        [sys.executable, VERIFIER, path], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def exported(user: "User") -> list[dict[str, Any]]:
    response = browser(user).get("/history/export/", {"as": "jsonl"})
    return [json.loads(line) for line in response.getvalue().splitlines()]


@pytest.mark.parametrize(
    "forged",
    ["original_data = '\"x\"'", "modified_data = '\"x\"'", "comment = 'x'"],
)
def test_data_in_place_of_an_erased_payload_is_reported(
    start: Start, reviewer: "User", auditor: "User", tmp_path: Path, forged: str
) -> None:
    record = erased_record(start, reviewer)
    assert (record.is_erased, verify_audit().problems) == (True, ())
    by_hand(f"UPDATE reviews_humanreviewrecord SET {forged}")
    (problem,) = verify_audit().problems
    assert f"record {record.pk} shows other data" in problem
    assert not HumanReviewRecord.objects.get().is_erased
    code, said = verified_file(exported(auditor), tmp_path / "history.jsonl")
    assert (code, "shows another comment than it was signed with" in said) == (1, True), said


@pytest.mark.parametrize("key", ["", encrypt("no key")], ids=["empty", "no key"])
def test_a_key_that_is_none_is_no_erasure(start: Start, reviewer: "User", key: str) -> None:
    decided(start, reviewer)
    by_hand("UPDATE reviews_payloadkey SET key = %s", key)
    by_hand("UPDATE reviews_humanreviewrecord SET comment = 'x', original_data = '1'")
    record = HumanReviewRecord.objects.get()
    assert not record.is_erased
    (problem,) = verify_audit().problems
    assert f"record {record.pk} shows other data" in problem
    by_hand("UPDATE reviews_humanreviewrecord SET comment = '', original_data = NULL")
    assert not HumanReviewRecord.objects.get().is_erased
    assert verify_audit().problems == (problem,)


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ({"comment": "x"}, "has a comment, though it says that its comment was erased"),
        ({"original_data": {}}, "has data, though it says that its data was erased"),
        ({"erased": {"at": "", "policy": ""}}, "the retention log does not say so"),
        ({"erased": {"unexplained": True}}, "the retention log does not say so"),
    ],
)
def test_the_verifier_finds_data_of_erased_records(
    start: Start,
    reviewer: "User",
    auditor: "User",
    tmp_path: Path,
    forged: dict[str, Any],
    said: str,
) -> None:
    erased_record(start, reviewer)
    first, row, *rest = exported(auditor)
    assert verified_file([first, row, *rest], tmp_path / "whole.jsonl")[0] == 2  # needs the key
    code, found = verified_file([first, {**row, **forged}, *rest], tmp_path / "forged.jsonl")
    assert (code, said in found) == (1, True), found


def test_an_erasure_that_the_log_does_not_name_is_reported(
    start: Start, reviewer: "User", auditor: "User", policy: RetentionPolicy, tmp_path: Path
) -> None:
    """The log names the run, whose records the policy kept."""
    run = decided(start, reviewer)
    age(run)
    assert erase_batch(policy) == 1
    by_hand("DELETE FROM reviews_payloadkey")
    assert verify_audit().problems == (
        f"erased: the retention log does not say that the records of run {run.pk} were erased",
    )
    lines = exported(auditor)
    assert lines[1]["erased"] == {"unexplained": True}
    code, said = verified_file(lines, tmp_path / "history.jsonl")
    assert (code, "the retention log does not say so" in said) == (1, True), said


# --- the preview ----------------------------------------------------------------------------------

#: They have no number of their own: texts of the search, readers, keys, and rows of runs that go.
UNCOUNTED = {
    "workflows_executionwords",
    "workflows_audience",
    "workflows_approval",
    "workflows_hold",
    "workflows_execution",
    "reviews_payloadkey",
}


def test_the_preview_counts_every_kind_that_is_deleted() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = 'holdpoint_erase'")
        (source,) = cursor.fetchone()
    loops = re.findall(r"ARRAY ARRAY\[([^\]]*)\]", source)
    tables = {name for names in loops for name in re.findall(r"'(\w+)'", names)}
    tables |= set(re.findall(r"DELETE FROM (\w+)", source))
    counted = {model._meta.db_table for model, _ in selectors.DELETED.values()}
    assert counted | UNCOUNTED == tables
    assert not counted & UNCOUNTED


def test_the_preview_says_what_is_erased(
    start: Start, reviewer: "User", policy: RetentionPolicy
) -> None:
    run = decided(start, reviewer)
    hold = run.holds.get()
    ReviewClaim.objects.create(
        hold=hold, user=reviewer, claimed_at=timezone.now(), expires_at=timezone.now()
    )
    LearningAttempt.objects.create(execution=run, attempts=1, begun_at=timezone.now())
    age(run)
    found = preview(policy)
    assert erase_batch(policy) == 1
    erased = RetentionEntry.objects.get(kind="erased").detail
    assert {
        name: erased[model._meta.model_name]
        for name, (model, _) in selectors.DELETED.items()
        if name != "gate calls"
    } == {name: count for name, count in found.rows.items() if name != "gate calls"}
    expected = {"claims": 1, "learning attempts": 1, "shapers": 1, "task attempts": 1}
    assert expected.items() <= found.rows.items()


# --- what is not erased ---------------------------------------------------------------------------


def test_runs_that_have_not_ended_stay(start: Start, policy: RetentionPolicy) -> None:
    held = start(echo("a", phase=BEFORE))
    Execution.objects.filter(pk=held.pk).update(finished_at=timezone.now() - timedelta(days=99))
    fresh = start(echo("a"))
    age(fresh, days=29)
    assert erase_batch(policy) == 0
    assert erased_directly(policy, held, fresh) == 0


def erased_directly(policy: RetentionPolicy, *runs: Execution) -> int:
    """Call the function of the database with chosen runs, as a stolen password would."""
    with connection.cursor() as cursor:
        ids = [each.pk for each in runs]
        cursor.execute("SELECT holdpoint_erase(%s, %s::bigint[])", [policy.pk, ids])
        return int(cursor.fetchone()[0])


def test_a_policy_that_is_not_enabled_erases_nothing(start: Start) -> None:
    run = start(echo("a"))
    age(run)
    draft = RetentionPolicy.objects.create(keep_days=30)
    forever = RetentionPolicy.objects.create(
        workflow=Workflow.objects.create(name="w", title="W", plan={}), enabled=True
    )
    assert preview(draft).runs == 1
    assert preview(forever).runs == 0
    assert erase_batch(draft) == erased_directly(draft, run) == erased_directly(forever, run) == 0


def test_the_policy_of_a_workflow_goes_first(
    start: Start, operator: "User", policy: RetentionPolicy
) -> None:
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})
    stock_catalogue()
    own = RetentionPolicy.objects.create(workflow=workflow, keep_days=90, enabled=True)
    run = run_to_rest(start_execution(workflow=workflow, actor=operator).pk)
    age(run, days=60)
    assert erase_batch(policy) == erase_batch(own) == 0
    age(run, days=91)
    assert (erase_batch(policy), erase_batch(own)) == (0, 1)


@pytest.mark.parametrize("of", ["run", "workflow"])
def test_a_legal_hold_stops_retention(
    start: Start, operator: "User", admin: "User", policy: RetentionPolicy, of: str
) -> None:
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})
    stock_catalogue()
    run = run_to_rest(start_execution(workflow=workflow, actor=operator).pk)
    age(run)
    what: dict[str, Any] = {"execution": run} if of == "run" else {"workflow": workflow}
    hold = place_legal_hold(actor=admin, reason="Case 7", **what)
    assert preview(policy).runs == erase_batch(policy) == erased_directly(policy, run) == 0
    page = browser(operator).get(f"/runs/{run.pk}/").content.decode()
    assert "Legal hold by" in page
    assert "Case 7" in page
    assert lift_legal_hold(actor=admin, hold=hold)
    assert not lift_legal_hold(actor=admin, hold=hold)
    assert erase_batch(policy) == 1
    entries = RetentionEntry.objects.exclude(kind="policy_set").order_by("id")
    kinds = list(entries.values_list("kind", "actor"))
    assert kinds == [("hold_placed", "admin"), ("hold_lifted", "admin"), ("erased", "system")]


def test_a_workflow_under_a_legal_hold_is_not_deleted(admin: "User") -> None:
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})
    hold = place_legal_hold(actor=admin, reason="Case 7", workflow=workflow)
    for _ in range(2):
        with pytest.raises(Refused, match="legal holds"):
            delete_workflow(workflow=workflow)
        lift_legal_hold(actor=admin, hold=hold)  # the row stays: it is part of the log


@pytest.mark.parametrize("of", ["run", "workflow"])
def test_a_legal_hold_keeps_notices_and_deliveries(
    start: Start, operator: "User", admin: "User", of: str
) -> None:
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})
    stock_catalogue()
    run = run_to_rest(start_execution(workflow=workflow, actor=operator).pk)
    endpoint = WebhookEndpoint.objects.create(owner=admin, name="w", url="https://x.example/")
    held = start(echo("a", phase=BEFORE))
    past = timezone.now() - timedelta(days=500)
    for each in (run, held):
        WebhookDelivery.objects.create(
            endpoint=endpoint, execution=each, message_id="m", type="t", finished_at=past
        )
    Notice.objects.create(user=admin, execution=held, hold=only_hold(held), kind="waiting", key="k")
    Notice.objects.update(created_at=past)
    what: dict[str, Any] = {"execution": run} if of == "run" else {"workflow": workflow}
    holds = [
        place_legal_hold(actor=admin, reason="Case 7", **what),
        place_legal_hold(actor=admin, reason="Case 7", execution=held),
    ]
    assert (delete_old_deliveries(), forget_old()) == (0, 0)
    for hold in holds:
        lift_legal_hold(actor=admin, hold=hold)
    assert (delete_old_deliveries(), forget_old()) == (2, 1)


def test_retention_is_in_the_security_events(start: Start, admin: "User") -> None:
    run = start(echo("a"))
    age(run)
    hold = place_legal_hold(actor=admin, reason="Case 7", execution=run)
    lift_legal_hold(actor=admin, hold=hold)
    policy = save_policy(actor=admin, policy=RetentionPolicy(keep_days=30))
    policy.enabled = True
    save_policy(actor=admin, policy=policy)
    assert erase_batch(policy) == 1
    services.delete_policy(actor=admin, policy=policy)
    events = list(SecurityEvent.objects.order_by("id"))
    assert [(each.kind, each.actor) for each in events] == [
        ("legal_hold_placed", "admin"), ("legal_hold_lifted", "admin"), ("retention_set", "admin"),
        ("retention_set", "admin"), ("runs_erased", "system"), ("retention_deleted", "admin"),
    ]  # fmt: skip
    assert events[1].details["legal_hold"] == hold.pk
    assert (events[3].details["enabled"], events[4].details["runs"]) == (True, 1)
    assert "Case 7" not in str([each.details for each in events])


def test_a_run_is_erased_after_its_forks(
    start: Start, operator: "User", policy: RetentionPolicy
) -> None:
    run = start(echo("a"), {**echo("b"), "depends_on": ["a"]})
    checkpoint = run.checkpoints.get(layer=0)
    fork = fork_execution(execution=run, checkpoint=checkpoint, actor=operator)
    age(run)
    assert erase_batch(policy) == 0
    fork = run_to_rest(fork.pk)
    age(fork)
    assert (erase_batch(policy), erase_batch(policy)) == (1, 1)
    assert not Execution.objects.exists()


# --- races and crashes ----------------------------------------------------------------------------


def in_another_session(work: Any) -> tuple[Thread, Event, Event]:
    """Do `work` in a transaction of a thread that commits when the last event is set."""
    done, commit = Event(), Event()

    def run() -> None:
        try:
            with transaction.atomic():
                work()
                done.set()
                assert commit.wait(20)
        finally:
            connection.close()

    thread = Thread(target=run)
    thread.start()
    assert done.wait(20)
    return thread, done, commit


def test_a_run_that_is_being_forked_is_not_erased(
    start: Start, operator: "User", policy: RetentionPolicy
) -> None:
    run = start(echo("a"), {**echo("b"), "depends_on": ["a"]})
    age(run)
    checkpoint = run.checkpoints.get(layer=0)
    forks: list[Execution] = []

    def fork() -> None:
        forks.append(fork_execution(execution=run, checkpoint=checkpoint, actor=operator))

    thread, _, commit = in_another_session(fork)
    assert erase_batch(policy) == 0
    commit.set()
    thread.join()
    assert erase_batch(policy) == 0
    assert run_to_rest(forks[0].pk).status == "COMPLETED"


def test_an_erased_run_is_not_forked(
    start: Start, operator: "User", reviewer: "User", policy: RetentionPolicy
) -> None:
    run = decided(start, reviewer)
    checkpoint = run.checkpoints.get()
    age(run)
    assert erase_batch(policy) == 1
    with pytest.raises(Http404):
        fork_execution(execution=run, checkpoint=checkpoint, actor=operator)
    assert Execution.objects.count() == 1


def test_a_legal_hold_that_is_being_placed_counts(
    start: Start, admin: "User", policy: RetentionPolicy
) -> None:
    run = start(echo("a"))
    age(run)
    thread, _, commit = in_another_session(
        lambda: place_legal_hold(actor=admin, reason="Case 7", execution=run)
    )
    assert erase_batch(policy) == 0
    commit.set()
    thread.join()
    assert erase_batch(policy) == 0


def test_no_legal_hold_of_an_erased_run(
    start: Start, reviewer: "User", admin: "User", policy: RetentionPolicy
) -> None:
    run = decided(start, reviewer)
    age(run)
    assert erase_batch(policy) == 1
    with pytest.raises(AlreadyErased):
        place_legal_hold(actor=admin, reason="too late", execution=run)


def test_a_reader_whose_run_is_erased_finds_nothing(
    start: Start, auditor: "User", policy: RetentionPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is erased after its page has read its row."""
    run = start(echo("a"))
    age(run)
    from reviews.runs import pages, views
    from workflows.journal import writer

    writer.load_revision.cache_clear()
    read = pages.run_context

    def late(*args: Any, **kwargs: Any) -> Any:
        assert erase_batch(policy) == 1
        return read(*args, **kwargs)

    monkeypatch.setattr(views, "run_context", late)
    assert browser(auditor).get(f"/runs/{run.pk}/").status_code == 404


def test_a_killed_sweeper_leaves_the_rest_to_the_next(
    start: Start, policy: RetentionPolicy, monkeypatch: Any
) -> None:
    monkeypatch.setattr("reviews.retention.services.BATCH", 2)
    runs = [start(echo("a")) for _ in range(5)]
    age(*runs)

    def cut() -> None:
        raise RuntimeError("the power is gone")

    crashpoints.arm("retention.erased", cut)
    with pytest.raises(RuntimeError):
        erase_due()
    assert Execution.objects.count() == 3
    crashpoints.set_observer(None)
    assert erase_due() == 3
    assert erase_due() == 0
    erased = RetentionEntry.objects.values_list("executions", flat=True)
    assert sorted(chain.from_iterable(erased)) == [each.pk for each in runs]


def test_off_peak(
    start: Start, policy: RetentionPolicy, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    age(start(echo("a")))
    settings.HOLDPOINT = {**settings.HOLDPOINT, "retention_hours": (22, 6)}
    monkeypatch.setattr(services.timezone, "now", lambda: datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert erase_due() == 0
    monkeypatch.setattr(services.timezone, "now", lambda: datetime(2026, 3, 1, 23, tzinfo=UTC))
    assert erase_due() == 1


# --- rights ---------------------------------------------------------------------------------------


@pytest.fixture
def app_url() -> str:
    if settings.DATABASES["default"]["USER"] != SUPERUSER:
        pytest.skip("needs the embedded server, where the roles are known")
    name = connection.settings_dict["NAME"]
    url = database_url(APP_ROLE, name)
    grant(database_url(SUPERUSER, name), url)
    return url


def test_the_product_erases_through_the_function_only(
    start: Start, admin: "User", policy: RetentionPolicy, app_url: str
) -> None:
    run, kept = start(echo("a")), start(echo("a"))
    age(run)
    place_legal_hold(actor=admin, reason="Case 7", execution=kept)
    refused = (
        "UPDATE workflows_execution SET erased_at = now()",
        "DELETE FROM workflows_executionevent",
        "DELETE FROM reviews_retentionentry",
        "UPDATE reviews_retentionentry SET actor = 'x'",
        "DELETE FROM reviews_legalhold",
        "UPDATE reviews_legalhold SET reason = 'x'",
        "UPDATE reviews_legalhold SET lifted_at = now()",
        "UPDATE workflows_execution SET finished_at = '2020-01-01'",
        "UPDATE workflows_execution SET finished_at = NULL",
        "INSERT INTO reviews_erasable VALUES (1, 1, now())",
    )
    with psycopg.connect(app_url, autocommit=True) as session:
        for statement in refused:
            with pytest.raises(psycopg.Error) as error:
                session.execute(statement)
            assert error.value.sqlstate in ("42501", "55000"), statement
        ids = [run.pk, kept.pk]
        found = session.execute("SELECT holdpoint_erase(%s, %s::bigint[])", [policy.pk, ids])
        assert found.fetchone() == (1,)
    superuser_url = database_url(SUPERUSER, connection.settings_dict["NAME"])
    with psycopg.connect(superuser_url, autocommit=True) as session:
        session.execute("CREATE ROLE holdpoint_reader")
        try:
            session.execute("GRANT USAGE ON SCHEMA public TO holdpoint_reader")
            session.execute("SET ROLE holdpoint_reader")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute("SELECT holdpoint_erase(1, '{}')")
            session.execute("RESET ROLE")
        finally:
            session.execute("REVOKE USAGE ON SCHEMA public FROM holdpoint_reader")
            session.execute("DROP ROLE holdpoint_reader")


def test_the_product_ends_a_run_at_no_time_in_the_past(
    start: Start, operator: "User", app_url: str
) -> None:
    workflow = Workflow.objects.create(
        name="w", title="W", plan={"tasks": [echo("a", phase=BEFORE)]}
    )
    stock_catalogue()
    run = run_to_rest(start_execution(workflow=workflow, actor=operator).pk)
    end = (
        "UPDATE workflows_execution SET status = 'ABORTED', version = version + 1,"
        " finished_at = %s WHERE id = %s"
    )
    with psycopg.connect(app_url, autocommit=True) as session:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute(end, ["2020-01-01", run.pk])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("UPDATE workflows_execution SET workflow_id = NULL")
        assert session.execute(end, [timezone.now() + timedelta(minutes=1), run.pk]).rowcount == 1


def test_changes_in_sql_are_in_the_log(
    start: Start, admin: "User", policy: RetentionPolicy, app_url: str
) -> None:
    run = start(echo("a"))
    hold = place_legal_hold(actor=admin, reason="Case 7", execution=run)
    before = RetentionEntry.objects.latest("id").pk
    gate = Gate.objects.create(name="files")
    with psycopg.connect(app_url, autocommit=True) as session:
        # An entry that was written in advance is not that of a later change.
        session.execute(
            "INSERT INTO reviews_retentionentry (kind, actor, subject, executions, detail, at)"
            " VALUES ('hold_lifted', 'admin', 'x', '{}', %s, '2099-01-01')",
            [json.dumps({"legal_hold": hold.pk})],
        )
        session.execute(
            "UPDATE reviews_legalhold SET lifted_at = now(), lifted_by_id = %s", [admin.pk]
        )
        session.execute("UPDATE reviews_retentionpolicy SET keep_days = 1")
        session.execute("DELETE FROM reviews_retentionpolicy")
        session.execute(
            "INSERT INTO reviews_legalhold (execution_id, reason, placed_by_id)"
            " VALUES (%s, 'x', %s)",
            [run.pk, admin.pk],
        )
        session.execute(
            "INSERT INTO reviews_legalhold (gate_id, reason, placed_by_id) VALUES (%s, 'x', %s)",
            [gate.pk, admin.pk],
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("UPDATE reviews_legalhold SET gate_id = NULL, lifted_at = now()")
    role = f"database role {APP_ROLE}"
    entries = RetentionEntry.objects.filter(pk__gt=before).order_by("id")
    assert [(each.kind, each.actor, each.subject) for each in entries] == [
        ("hold_lifted", "admin", "x"),
        ("hold_lifted", role, f"Run {run.pk}"),
        ("policy_set", role, "All other runs: 1 days"),
        ("policy_deleted", role, "All other runs: 1 days"),
        ("hold_placed", role, f"Run {run.pk}"),
        ("hold_placed", role, "MCP gate files"),
    ]
    assert entries[1].executions == [run.pk]
    assert entries[1].detail == {"legal_hold": hold.pk, "reason": "Case 7"}
    assert all(each.at <= timezone.now() for each in entries)


def test_a_policy_that_is_deleted_with_its_workflow_is_in_the_log(admin: "User") -> None:
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})
    save_policy(actor=admin, policy=RetentionPolicy(workflow=workflow, keep_days=30))
    delete_workflow(workflow=workflow)
    entries = RetentionEntry.objects.order_by("id").values_list("kind", "subject")
    assert list(entries) == [("policy_set", "W: 30 days"), ("policy_deleted", "W: 30 days")]


def test_the_product_writes_one_entry_for_each_change(start: Start, admin: "User") -> None:
    run = start(echo("a"))
    workflow = Workflow.objects.create(name="w", title="W", plan={"tasks": [echo("a")]})
    gate = Gate.objects.create(name="files")
    for what in ({"execution": run}, {"workflow": workflow}, {"gate": gate}):
        hold = place_legal_hold(actor=admin, reason="Case 7", **what)  # type: ignore[arg-type]
        lift_legal_hold(actor=admin, hold=hold)
    for policy in (RetentionPolicy(), RetentionPolicy(workflow=workflow, keep_days=7)):
        save_policy(actor=admin, policy=policy)
        services.delete_policy(actor=admin, policy=policy)
    entries = RetentionEntry.objects.values_list("actor", flat=True)
    assert list(entries) == ["admin"] * 10


def test_the_owner_too_deletes_no_journal_of_a_run_with_data(start: Start) -> None:
    run = start(echo("a"))
    with connection.cursor() as cursor, pytest.raises(DatabaseError, match="append-only"):
        cursor.execute("DELETE FROM workflows_executionevent WHERE execution_id = %s", [run.pk])


def test_a_run_that_is_marked_by_hand_is_reported(start: Start, reviewer: "User") -> None:
    run = decided(start, reviewer)
    Execution.objects.filter(pk=run.pk).update(erased_at=timezone.now())
    assert verify_audit().problems == (
        f"erased: the retention log has no entry about the erased run {run.pk}",
    )


def test_only_admins_set_policies_and_legal_holds(
    start: Start, operator: "User", admin: "User", policy: RetentionPolicy
) -> None:
    run = start(echo("a"))
    hold = place_legal_hold(actor=admin, reason="Case 7", execution=run)
    for attempt in (
        lambda: save_policy(actor=operator, policy=policy),
        lambda: services.delete_policy(actor=operator, policy=policy),
        lambda: place_legal_hold(actor=operator, reason="x", execution=run),
        lambda: lift_legal_hold(actor=operator, hold=hold),
    ):
        with pytest.raises(NotAllowed):
            attempt()


def test_a_policy_is_enabled_after_its_preview(admin: "User") -> None:
    unseen = RetentionPolicy(keep_days=30, enabled=True)
    with pytest.raises(ReviewInvalid):
        save_policy(actor=admin, policy=unseen)
    draft = save_policy(actor=admin, policy=RetentionPolicy(keep_days=30))
    draft.enabled = True
    save_policy(actor=admin, policy=draft)
    draft.keep_days = 7
    with pytest.raises(ReviewInvalid):
        save_policy(actor=admin, policy=draft)
    details = list(RetentionEntry.objects.order_by("id").values_list("detail", flat=True))
    common = {"keep_days": 30, "erase_records": False}
    assert details == [{"enabled": False, **common}, {"enabled": True, **common}]


# --- the admin ------------------------------------------------------------------------------------


def test_policies_in_the_admin(start: Start, reviewer: "User", admin: "User") -> None:
    age(decided(start, reviewer))
    client = browser(admin)
    address = "/admin/reviews/retentionpolicy/add/"
    refused = client.post(address, {"keep_days": "30", "enabled": "on"})
    assert "look at its preview" in refused.content.decode()
    assert client.post(address, {"keep_days": "30"}).status_code == 302
    policy = RetentionPolicy.objects.get()
    address = f"/admin/reviews/retentionpolicy/{policy.pk}/change/"
    page = client.get(address).content.decode()
    assert "The data of 1 runs that ended from" in page
    assert "1 audit records of these runs are kept." in page
    assert client.post(address, {"keep_days": "30", "enabled": "on"}).status_code == 302
    assert erase_due() == 1
    address = f"/admin/reviews/retentionpolicy/{policy.pk}/delete/"
    assert client.post(address, {"post": "yes"}).status_code == 302
    log = client.get("/admin/reviews/retentionentry/").content.decode()
    for line in ("policy set: All other runs: 30 days", "runs erased", "policy deleted"):
        assert line in log


def test_legal_holds_in_the_admin(start: Start, admin: "User") -> None:
    run = start(echo("a"))
    client = browser(admin)
    address = "/admin/reviews/legalhold/add/"
    assert f'value="{run.pk}"' in client.get(f"{address}?execution={run.pk}").content.decode()
    gate = Gate.objects.create(name="files")
    both = {"execution": str(run.pk), "gate": str(gate.pk)}
    for wrong in ({}, {"execution": "77777"}, {"execution": "x"}, both):
        response = client.post(address, {**wrong, "reason": "Case 7"})
        assert response.status_code == 200
    assert client.post(address, {"gate": str(gate.pk), "reason": "Case 8"}).status_code == 302
    assert "MCP gate files" in client.get("/admin/reviews/legalhold/").content.decode()
    response = client.post(address, {"execution": str(run.pk), "reason": "Case 7"})
    assert response.status_code == 302
    hold = LegalHold.objects.get(gate=None)
    assert (hold.execution_id, hold.placed_by_id) == (run.pk, admin.pk)
    form = {"action": "lift_holds", "_selected_action": [hold.pk]}
    assert client.post("/admin/reviews/legalhold/", form).status_code == 302
    hold.refresh_from_db()
    assert hold.lifted_by_id == admin.pk
