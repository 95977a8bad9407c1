"""Attacks on the audit log by the owner of the tables or of an export file.

Each attack leaves hashes that fit, since anybody can compute them.  Signatures and heads that were
kept elsewhere give it away, to the product's own verifier and to the one that travels.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from reviews.audit import chain_anchors, signing
from reviews.audit.chain import GENESIS, record_hash, record_text
from reviews.audit.records import record_content
from reviews.models import HumanReviewRecord
from tests.integration.reviews.audit.test_tampering import VERIFIER, as_owner
from tests.integration.reviews.conftest import Start, decide, echo, only_hold
from tests.support.pages import browser
from tests.support.processes import end, wait_for
from tests.support.processes import start as start_process
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, ExecutionReceipt

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)
Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


@pytest.fixture
def heads_file(settings: Any, tmp_path: Path) -> Path:
    """The file that heads are shipped to, out of the attacker's reach."""
    path = tmp_path / "kept" / "heads.jsonl"
    settings.HOLDPOINT = {**settings.HOLDPOINT, "audit_heads_file": path}
    return path


def decided(start: Start, reviewer: User, name: str) -> Execution:
    hold = only_hold(start(echo(name, phase="BEFORE_EXECUTION")))
    decide(hold, reviewer, comment="fine", source="web")
    return run_to_rest(hold.execution_id)


@pytest.fixture
def three(start: Start, reviewer: User, heads_file: Path) -> list[HumanReviewRecord]:
    """Three decisions and what ran after them, a head after each."""
    for name in "abc":
        decided(start, reviewer, name)
        chain_anchors.ship(chain_anchors.sign_anchor())
    return list(HumanReviewRecord.objects.order_by("id"))


def product(heads_file: Path | None, *more: str) -> str:
    """What verify_audit says is wrong; "" when it finds nothing."""
    errors = io.StringIO()
    given = [f"--heads={heads_file}"] if heads_file else []
    try:
        call_command("verify_audit", *given, *more, stderr=errors, stdout=io.StringIO())
    except CommandError as error:
        return f"{errors.getvalue()}{error}"
    return ""


def exported(auditor: User, **query: str) -> list[bytes]:
    client = browser(auditor)
    answer: Any = client.get("/history/export/", {"as": "jsonl", **query})
    return b"".join(answer.streaming_content).splitlines(keepends=True)


def check(
    lines: Iterable[bytes], tmp_path: Path, *more: str, python: Iterable[str] = ("-I",)
) -> tuple[int, str]:
    """The exit code of the verifier that travels, and all that it says."""
    file = tmp_path / "history.jsonl"
    file.write_bytes(b"".join(lines))
    command = [sys.executable, *python, str(VERIFIER), str(file), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr + done.stdout


def key_and_heads(heads_file: Path) -> tuple[str, ...]:
    return ("--key", signing.public_key(), "--heads", str(heads_file))


def rewrite(change: Change, *, sign: bool = False) -> None:
    """Rewrite the chain of records as the owner of the tables can: every hash fits again."""
    names = [f.attname for f in HumanReviewRecord._meta.concrete_fields]
    rows = change(list(HumanReviewRecord.objects.order_by("id").values(*names)))
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("DELETE FROM reviews_humanreviewrecord")
        previous = GENESIS
        for number, row in enumerate(rows, 1):
            content = record_content(HumanReviewRecord(**row), number)
            text = json.loads(row["canonical"]) | {
                "sequence": number,
                "comment_digest": content["comment_digest"],
                "actor": row["actor"],
                "reviewed_at": row["reviewed_at"],
            }
            canonical = record_text(text)
            chained = {
                "canonical": canonical,
                "previous_hash": previous,
                "hash": record_hash(previous, canonical),
            }
            previous = chained["hash"]
            if sign:
                chained["signature"] = signing.sign("record", previous)
            HumanReviewRecord(**{**row, **chained}).save(force_insert=True)
        # Receipts are linked to the new hashes, in a chain that fits, too.
        hashes = dict(HumanReviewRecord.objects.values_list("hold_id", "hash"))
        previous = GENESIS
        ExecutionReceipt.objects.exclude(hold_id__in=hashes).delete()
        for number, receipt in enumerate(ExecutionReceipt.objects.order_by("sequence"), 1):
            text = json.loads(receipt.canonical)
            text |= {"decision_hash": hashes[receipt.hold_id], "sequence": number}
            receipt.decision_hash, receipt.sequence = hashes[receipt.hold_id], number
            receipt.canonical, receipt.previous_hash = record_text(text), previous
            receipt.hash = previous = record_hash(previous, receipt.canonical)
            receipt.save()
        cursor.execute("SET session_replication_role = origin")


def test_an_untouched_log_verifies(
    three: list[HumanReviewRecord], auditor: User, heads_file: Path, tmp_path: Path
) -> None:
    assert product(heads_file) == ""
    code, said = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert (code, "NOT CHECKED" in said) == (0, False), said
    assert "3 records and the file itself are signed" in said
    assert "3 signed heads fit" in said


def _reworded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "stored_comment": "something else"} for row in rows]


def _unsigned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "signature": ""} for row in _reworded(rows)]


def _reordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    first, second, *rest = rows
    return [{**second, "id": first["id"]}, {**first, "id": second["id"]}, *rest]


def _without(at: int) -> Change:
    return lambda rows: [*rows[:at], *rows[at + 1 :]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_reworded, "was not signed by a"),
        (_unsigned, "no record is signed"),
        (_reordered, "was not signed by a"),
        (_without(1), "was not signed by a"),
        (lambda rows: [rows[0], {**rows[1], "signature": ""}, rows[2]], "is not signed, though"),
    ],
)
def test_signatures_reveal_a_rewritten_chain(
    three: list[HumanReviewRecord], auditor: User, tmp_path: Path, change: Change, said: str
) -> None:
    rewrite(change)
    assert said in product(None)
    code, found = check(exported(auditor), tmp_path, "--key", signing.public_key())
    assert (code, said in found) == (1, True), found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_reworded, "was rewritten"),
        (_reordered, "was rewritten"),
        (_without(1), "was rewritten"),
        (_without(2), "the newest records are missing: a head names 3"),
        (lambda rows: [], "the newest records are missing: a head names 3"),
    ],
)
def test_heads_reveal_a_rewritten_and_resigned_chain(
    three: list[HumanReviewRecord],
    auditor: User,
    heads_file: Path,
    tmp_path: Path,
    change: Change,
    said: str,
) -> None:
    """By somebody with the product's key, which is with its processes, and not the heads."""
    rewrite(change, sign=True)
    assert product(None) == "", "nothing but heads shows it"
    assert said in product(heads_file)
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert (code, said in found) == (1, True), found


def test_a_backdated_record_is_named(
    three: list[HumanReviewRecord], auditor: User, heads_file: Path, tmp_path: Path
) -> None:
    def backdated(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        moment = rows[0]["reviewed_at"] - timedelta(hours=1)
        return [*rows[:2], {**rows[2], "reviewed_at": moment}]

    lines = heads_file.read_text().splitlines(keepends=True)
    rewrite(backdated, sign=True)
    heads_file.write_text("".join(lines[:2]) + json.dumps(chain_anchors.sign_anchor()) + "\n")
    assert "was backdated" in product(heads_file)
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert (code, "was backdated" in found) == (1, True), found


def forge_record(
    last: HumanReviewRecord, auditor: User, *, node: str, sequence: int = 4
) -> HumanReviewRecord:
    """The next record, in the auditor's name, with its event: unsigned, and not yet inserted."""
    execution = last.execution
    execution.refresh_from_db()
    version = execution.version + 1
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO workflows_executionevent"
            " (execution_id, seq, kind, payload, actor, actor_id, source)"
            " VALUES (%s, %s, 'hold_decided', '{}', 'auditor', %s, 'web')",
            [execution.pk, version, auditor.pk],
        )
    text = json.loads(last.canonical) | {
        "sequence": sequence,
        "actor": "auditor",
        "node": node,
        "reviewer": auditor.pk,
        "version": version,
        "reviewed_at": datetime.now(UTC),
    }
    forged = HumanReviewRecord.objects.get(pk=last.pk)
    forged.pk, forged.actor, forged.reviewer, forged.node_id = None, "auditor", auditor, node
    forged.version, forged.reviewed_at = version, text["reviewed_at"]
    forged.previous_hash, forged.canonical = last.hash, record_text(text)
    forged.hash, forged.signature = record_hash(last.hash, forged.canonical), ""
    return forged


def test_a_record_in_another_persons_name_is_named(
    three: list[HumanReviewRecord], auditor: User, tmp_path: Path
) -> None:
    """A forger with the product's database password writes the event, too, but cannot sign."""
    last = three[-1]
    forged = forge_record(last, auditor, node=last.node_id)
    for signature, said in (("", "is not signed, though"), (last.signature, "was not signed by a")):
        forged.signature = signature
        forged.save(force_insert=True)
        assert f"record {forged.pk} {said}" in product(None)
        code, found = check(exported(auditor), tmp_path, "--key", signing.public_key())
        assert (code, f"record {forged.pk} {said}" in found) == (1, True), found
        as_owner("DELETE FROM reviews_humanreviewrecord WHERE id = %s", forged.pk)
        forged.pk = None


def test_an_unsigned_record_in_a_part_is_named(
    three: list[HumanReviewRecord],
    start: Start,
    reviewer: User,
    auditor: User,
    tmp_path: Path,
) -> None:
    """The filter leaves out the signed records before it; a signed one follows in the file."""
    forged = forge_record(three[-1], auditor, node="z")
    forged.save(force_insert=True)
    decided(start, reviewer, "z")
    part = exported(auditor, node="z")
    assert json.loads(part[0]) | {"rows": 2, "complete": False, "signed_from": 1} == json.loads(
        part[0]
    )
    said = f"record {forged.pk} is not signed, though"
    code, found = check(part, tmp_path, "--key", signing.public_key())
    assert (code, said in found) == (1, True), found
    # A part from before there was `signed_from`: nothing shows that the record is an old one.
    header = json.loads(part[0])
    del header["signed_from"]
    body = [json.dumps(header).encode() + b"\n", *part[1:-1]]
    text_digest = hashlib.sha256(b"".join(body)).hexdigest()
    last = {"digest": text_digest, "signature": signing.sign("export", text_digest)}
    body.append(json.dumps(json.loads(part[-1]) | last).encode())
    code, found = check(body, tmp_path, "--key", signing.public_key())
    assert (code, "does not say from where on" in found) == (1, True), found


def test_records_from_before_the_key_are_no_problem_in_a_part(
    start: Start, reviewer: User, auditor: User, tmp_path: Path, settings: Any
) -> None:
    mine = settings.HOLDPOINT
    settings.HOLDPOINT = {**mine, "audit_key": ""}
    decided(start, reviewer, "a")
    settings.HOLDPOINT = mine
    decided(start, reviewer, "b")
    decided(start, reviewer, "a")
    part = exported(auditor, node="a")
    assert json.loads(part[0])["signed_from"] == 2
    code, found = check(part, tmp_path, "--key", signing.public_key())
    assert (code, "NOT CHECKED: 1 records from before" in found) == (0, True), found


@pytest.fixture
def unsigned(start: Start, reviewer: User, heads_file: Path, settings: Any) -> None:
    """Two records from before there was a key."""
    mine = settings.HOLDPOINT
    settings.HOLDPOINT = {**mine, "audit_key": ""}
    for name in "ab":
        decided(start, reviewer, name)
    settings.HOLDPOINT = mine


@pytest.mark.usefixtures("unsigned")
def test_records_from_before_the_key_are_covered_by_the_first_signed_head(
    auditor: User, heads_file: Path, tmp_path: Path
) -> None:
    key = ("--key", signing.public_key())
    code, found = check(exported(auditor), tmp_path, *key)
    assert (code, "give --heads with heads that were signed since" in found) == (1, True), found
    assert "give --heads with heads that were signed since" in product(None)
    chain_anchors.ship(chain_anchors.sign_anchor())
    assert product(heads_file) == ""
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert code == 0, found
    assert "2 records are from before the key" in found
    assert "as they were when the first signed head was signed" in found
    rewrite(_unsigned)
    assert "was rewritten" in product(heads_file)
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert (code, "was rewritten" in found) == (1, True), found


@pytest.mark.usefixtures("unsigned")
def test_a_head_that_the_history_does_not_reach_covers_nothing(
    start: Start, reviewer: User, auditor: User, heads_file: Path, tmp_path: Path
) -> None:
    """The export is older than the first signed head, and no head has a hash to compare."""
    lines = exported(auditor)
    decided(start, reviewer, "c")
    chain_anchors.ship(chain_anchors.sign_anchor())
    code, found = check(lines, tmp_path, *key_and_heads(heads_file))
    assert (code, "the signed heads do not show it" in found) == (1, True), found


@pytest.mark.usefixtures("unsigned")
def test_a_forged_record_after_the_first_signed_head_is_named(
    auditor: User, heads_file: Path, tmp_path: Path
) -> None:
    """No record is signed yet, and a forger without the key slips one in."""
    chain_anchors.ship(chain_anchors.sign_anchor())
    last = HumanReviewRecord.objects.latest("id")
    forged = forge_record(last, auditor, node=last.node_id, sequence=3)
    forged.save(force_insert=True)
    chain_anchors.ship(chain_anchors.sign_anchor())
    said = f"record {forged.pk} is not signed, though a head from before it is"
    assert said in product(heads_file)
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert (code, said in found) == (1, True), found


@pytest.mark.usefixtures("unsigned")
def test_records_from_before_the_key_are_covered_by_the_first_signed_record(
    start: Start, reviewer: User, auditor: User, tmp_path: Path
) -> None:
    decided(start, reviewer, "c")
    told = io.StringIO()
    call_command("verify_audit", stdout=told)
    assert "1 of them are signed, 2 are from before the key" in told.getvalue()
    key = ("--key", signing.public_key())
    code, found = check(exported(auditor), tmp_path, *key)
    assert (code, "as they were when record 3 was signed" in found) == (0, True), found
    assert "NOT CHECKED: 2 records" not in found


@pytest.mark.usefixtures("unsigned")
def test_a_part_with_only_records_from_before_the_key_cannot_be_checked(
    start: Start, reviewer: User, auditor: User, tmp_path: Path
) -> None:
    key = ("--key", signing.public_key())
    code, found = check(exported(auditor, node="a"), tmp_path, *key)
    assert (code, "no record is signed" in found) == (1, True), found
    decided(start, reviewer, "c")
    code, found = check(exported(auditor, node="a"), tmp_path, *key)
    assert (code, "signed from number 3 on" in found) == (2, True), found
    assert "export the whole history" in found


def test_heads_reveal_rewritten_or_truncated_receipts(
    three: list[HumanReviewRecord], auditor: User, heads_file: Path, tmp_path: Path
) -> None:
    last = ExecutionReceipt.objects.latest("sequence")
    as_owner("DELETE FROM workflows_executionreceipt WHERE id = %s", last.pk)
    assert product(None) == "", "nothing but heads shows it"
    assert "the newest receipts are missing" in product(heads_file)
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert (code, "the newest receipts are missing" in found) == (1, True), found


# --- the file -------------------------------------------------------------------------------------


def _forged(lines: list[bytes], header: dict[str, Any], row: dict[str, Any]) -> list[bytes]:
    """The file with its rows changed, every hash in it made to fit."""
    rows = [json.loads(line) for line in lines]
    rows[0] |= header
    previous = GENESIS
    hashes = {}
    for each in rows[1:-1]:
        before = each["hash"]
        text = json.loads(each["canonical"])
        if "kind" not in each:
            each |= row
            text |= {"comment": each["comment"]}
        else:
            text["decision_hash"] = each["decision_hash"] = hashes[each["decision_hash"]]
            previous = GENESIS if text["sequence"] == 1 else previous
        each["canonical"], each["previous_hash"] = record_text(text), previous
        hashes[before] = each["hash"] = previous = record_hash(previous, each["canonical"])
        name = "receipts_head" if "kind" in each else "head"
        rows[0][name] = each["hash"]
    body = [json.dumps(each).encode() + b"\n" for each in rows[:-1]]
    rows[-1]["digest"] = hashlib.sha256(b"".join(body)).hexdigest()
    return [*body, json.dumps(rows[-1]).encode()]


MASKED = {"masked": 1, "original_data": "anything", "comment": "something else"}


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ({}, {"comment": "something else"}),
        ({"complete": False}, {"comment": "something else"}),
        ({}, MASKED),
        ({"complete": False}, MASKED),
        ({"exported_by": "somebody"}, {}),
        ({}, {"id": 1}),
    ],
)
def test_a_rewritten_export_file_is_named(
    three: list[HumanReviewRecord],
    auditor: User,
    heads_file: Path,
    tmp_path: Path,
    header: dict[str, Any],
    row: dict[str, Any],
) -> None:
    forged = _forged(exported(auditor), header, row)
    code, found = check(forged, tmp_path, "--key", signing.public_key())
    assert (code, "the file was not signed by a given key" in found) == (1, True), found
    code, found = check(forged, tmp_path, *key_and_heads(heads_file))
    assert code == (2 if header.get("complete") is False else 1), found
    if header.get("complete") is False or row == MASKED:
        code, found = check(forged, tmp_path)
        assert (code, "give the public key" in found) == (2, True), found


def test_masked_data_that_differs_in_the_database_is_named(
    start: Start, reviewer: User, auditor: User, tmp_path: Path
) -> None:
    """The owner of the tables makes other data look like a secret, so that the file masks it."""
    decided(start, reviewer, "a")
    as_owner(
        "UPDATE reviews_humanreviewrecord SET original_data = %s", '{"value": {"password": "x1"}}'
    )
    code, found = check(exported(auditor), tmp_path, "--key", signing.public_key())
    assert (code, "Holdpoint itself found to differ" in found) == (1, True), found


def test_the_verifier_states_what_a_masked_row_guarantees(
    start: Start, reviewer: User, auditor: User, tmp_path: Path
) -> None:
    hold = only_hold(start(echo("a", {"password": "hunter2"}, phase="BEFORE_EXECUTION")))
    decide(hold, reviewer, source="web")
    code, said = check(exported(auditor), tmp_path, "--key", signing.public_key())
    assert code == 0, said
    assert "What they show is not compared with the digests here" in said


# --- heads ----------------------------------------------------------------------------------------


def test_heads_of_another_key_are_no_heads(
    three: list[HumanReviewRecord], auditor: User, heads_file: Path, tmp_path: Path, settings: Any
) -> None:
    mine = settings.HOLDPOINT
    settings.HOLDPOINT = {**mine, "audit_key": "another-key-" + "z" * 50}
    heads_file.write_text(json.dumps(chain_anchors.sign_anchor()) + "\n")
    settings.HOLDPOINT = mine
    assert "was not signed by a given key" in product(heads_file)
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert (code, "was not signed by a given key" in found) == (1, True), found


def test_a_changed_head_is_no_head(three: list[HumanReviewRecord], heads_file: Path) -> None:
    lines = heads_file.read_text().splitlines()
    lines[2] = json.dumps(json.loads(lines[2]) | {"sequence": 2})
    heads_file.write_text("\n".join(lines))
    assert "line 3 of the heads was not signed" in product(heads_file)


def test_an_unsigned_head_is_no_head(
    three: list[HumanReviewRecord], auditor: User, heads_file: Path, tmp_path: Path
) -> None:
    unsigned = json.dumps({**chain_anchors.sign_anchor(), "signature": ""})
    heads_file.write_text(f"{heads_file.read_text()}{unsigned}\n")
    assert "line 4 of the heads was not signed" in product(heads_file)
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file))
    assert (code, "line 4 of the heads was not signed" in found) == (1, True), found


def test_heads_newer_than_the_export_are_reported(
    three: list[HumanReviewRecord],
    start: Start,
    reviewer: User,
    auditor: User,
    heads_file: Path,
    tmp_path: Path,
) -> None:
    lines = exported(auditor)
    decided(start, reviewer, "d")
    chain_anchors.ship(chain_anchors.sign_anchor())
    code, found = check(lines, tmp_path, *key_and_heads(heads_file))
    assert code == 0, found
    assert f"exported at {json.loads(lines[0])['exported_at']}" in found
    assert "NOT CHECKED what came after the export: 1 heads are younger" in found
    assert "3 signed heads fit" in found


def test_an_old_heads_file_does_not_hide_a_truncation(
    three: list[HumanReviewRecord], auditor: User, heads_file: Path, tmp_path: Path
) -> None:
    """The tail is cut off, and the heads are put back as they were before it."""
    lines = heads_file.read_text().splitlines(keepends=True)
    heads_file.write_text("".join(lines[:2]))
    rewrite(_without(2), sign=True)
    late = ("--max-age", "0")
    assert "newer heads are missing" in product(heads_file, "--max-age=0")
    code, found = check(exported(auditor), tmp_path, *key_and_heads(heads_file), *late)
    assert (code, "newer heads are missing" in found) == (1, True), found
    # Where the product went on to sign, the heads say themselves that the chain went back.
    heads_file.write_text("".join(lines) + json.dumps(chain_anchors.sign_anchor()) + "\n")
    assert "some were taken away" in product(heads_file)


def test_heads_that_cannot_be_checked_are_an_error(
    three: list[HumanReviewRecord], auditor: User, heads_file: Path, tmp_path: Path, settings: Any
) -> None:
    whole, part = exported(auditor), exported(auditor, node="a")
    code, said = check(whole, tmp_path, "--heads", str(heads_file))
    assert (code, "give the public key" in said) == (2, True)
    code, said = check(part, tmp_path, *key_and_heads(heads_file))
    assert (code, "this file is a part" in said) == (2, True)
    # Without the site's packages there is no `cryptography`.
    code, said = check(whole, tmp_path, *key_and_heads(heads_file), python=("-I", "-S"))
    assert (code, "pip install cryptography" in said) == (2, True), said
    assert check(whole, tmp_path, python=("-I", "-S"))[0] == 0
    for text in ("", "{}\n", '{"hash": "x"}\n', "no json\n"):
        (tmp_path / "none").write_text(text)
        code, said = check(
            whole, tmp_path, "--key", signing.public_key(), "--heads", str(tmp_path / "none")
        )
        assert (code, "cannot be checked" in said) == (2, True), said
        assert "cannot be checked" in product(tmp_path / "none")
    settings.HOLDPOINT = {**settings.HOLDPOINT, "audit_key": ""}
    assert "there is no key" in product(heads_file)


def test_after_a_key_change_new_records_are_signed_and_old_ones_verify(
    start: Start, reviewer: User, auditor: User, heads_file: Path, tmp_path: Path, settings: Any
) -> None:
    decided(start, reviewer, "a")
    chain_anchors.ship(chain_anchors.sign_anchor())
    old = signing.public_key()
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "audit_key": "the-next-key-" + "z" * 50,
        "audit_retired_keys": (old,),
    }
    decided(start, reviewer, "b")
    chain_anchors.ship(chain_anchors.sign_anchor())
    assert product(heads_file) == ""
    client = browser(auditor)
    keys = tmp_path / "audit-key.txt"
    keys.write_bytes(client.get("/history/audit-key/").content)
    assert keys.read_text().splitlines() == [signing.public_key(), old]
    assert (
        check(exported(auditor), tmp_path, "--key", str(keys), "--heads", str(heads_file))[0] == 0
    )
    code, said = check(exported(auditor), tmp_path, "--key", signing.public_key())
    assert (code, "was not signed by a given key" in said) == (1, True)
    assert signing.public_key() in client.get("/history/").content.decode()


def test_heads_are_written_atomically_to_the_file_and_the_log(
    three: list[HumanReviewRecord],
    heads_file: Path,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    heads_file.write_text(heads_file.read_text() + '{"torn')
    settings.HOLDPOINT = {**settings.HOLDPOINT, "audit_heads_log": True}
    with caplog.at_level("INFO", logger="holdpoint.audit.heads"):
        chain_anchors.ship(chain_anchors.sign_anchor())
    lines = heads_file.read_text().splitlines()
    assert len(lines) == 4
    assert lines[-1] in caplog.text
    assert product(heads_file) == ""


def test_a_failing_file_does_not_block_the_log(
    three: list[HumanReviewRecord],
    heads_file: Path,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "audit_heads_file": heads_file / "not-a-folder" / "heads.jsonl",
        "audit_heads_log": True,
    }
    with caplog.at_level("INFO"):
        chain_anchors.ship(chain_anchors.sign_anchor())
    assert "did not reach its file" in caplog.text
    assert "audit head {" in caplog.text


def test_a_head_waits_for_the_decision_that_is_being_written(heads_file: Path, db: None) -> None:
    head = chain_anchors.sign_anchor()
    assert (head["sequence"], head["hash"], head["receipts_hash"]) == (0, GENESIS, GENESIS)
    assert datetime.now(UTC) - datetime.fromisoformat(head["at"]) < timedelta(minutes=1)


def test_the_sweepers_process_signs_when_it_starts_and_when_it_stops(
    start: Start, reviewer: User, heads_file: Path, settings: Any
) -> None:
    decided(start, reviewer, "a")
    sweeper = start_process(
        "run_sweeper", HOLDPOINT_ROLE="sweeper", HOLDPOINT_AUDIT_HEADS_FILE=str(heads_file)
    )
    try:
        wait_for(heads_file.exists, what="the first head")
        decided(start, reviewer, "b")
    finally:
        end(sweeper)
    lines = [json.loads(line) for line in heads_file.read_text().splitlines()]
    assert [line["sequence"] for line in lines] == [1, 2]
    assert product(heads_file) == ""
