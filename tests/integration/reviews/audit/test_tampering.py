"""One record altered, taken out or slipped in by the tables' owner: both verifiers name it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.contrib.staticfiles import finders
from django.core.management import CommandError, call_command
from django.db import connection

from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import Start, decide, echo, only_hold
from tests.support.pages import browser

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)
VERIFIER = Path(str(finders.find("reviews/verify_history.py")))
#: Everything that a record has but its id.
COLUMNS = ", ".join(
    field.column for field in HumanReviewRecord._meta.concrete_fields if not field.primary_key
)


def as_owner(statement: str, *values: object) -> None:
    """As who owns the tables would: with the triggers at rest."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        try:
            cursor.execute(statement, values)
            assert cursor.rowcount == 1
        finally:
            cursor.execute("SET session_replication_role = origin")


def product(heads: tuple[str, ...] = ()) -> str:
    """What verify_audit says is wrong; "" when it finds nothing."""
    errors = io.StringIO()
    try:
        call_command("verify_audit", *heads, stderr=errors, stdout=io.StringIO())
    except CommandError:
        return errors.getvalue()
    return ""


def standalone(auditor: User, tmp_path: Path, *more: str) -> str:
    """What the verifier that travels with an export says is wrong."""
    client = browser(auditor)
    answer = client.get("/history/export/", {"as": "jsonl"})
    file = tmp_path / "history.jsonl"
    file.write_bytes(b"".join(answer.streaming_content))  # type: ignore[arg-type]
    done = subprocess.run(
        [sys.executable, "-I", str(VERIFIER), str(file), *more],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == (1 if done.stderr else 0)
    return done.stderr


@pytest.fixture
def three(start: Start, reviewer: User) -> list[HumanReviewRecord]:
    """Three decisions, oldest first."""
    for name in "abc":
        hold = only_hold(start(echo(name, phase="BEFORE_EXECUTION")))
        decide(hold, reviewer, comment="fine", source="web")
    return list(HumanReviewRecord.objects.order_by("id"))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("decision", "REJECT"),
        ("comment", "something else"),
        ("actor", "somebody"),
        ("original_data", '{"value": 2}'),
        ("reviewed_at", "2001-01-01T00:00:00Z"),
        ("waited_seconds", "0.001"),
        ("target", "builtin.fail"),
        ("canonical", "{}"),
        ("hash", "f" * 64),
    ],
)
def test_an_altered_record_is_named(
    three: list[HumanReviewRecord], auditor: User, tmp_path: Path, column: str, value: str
) -> None:
    assert product() == ""
    assert standalone(auditor, tmp_path) == ""
    middle = three[1].pk
    as_owner(f"UPDATE reviews_humanreviewrecord SET {column} = %s WHERE id = %s", value, middle)
    assert f"record {middle} " in product()
    if column != "canonical":  # a text that says nothing is no export that can be checked
        assert f"record {middle} " in standalone(auditor, tmp_path)


@pytest.mark.parametrize("at", [0, 1])
def test_a_removed_record_is_named_by_its_neighbours(
    three: list[HumanReviewRecord], auditor: User, tmp_path: Path, at: int
) -> None:
    as_owner("DELETE FROM reviews_humanreviewrecord WHERE id = %s", three[at].pk)
    following = three[at + 1].pk
    assert f"record {following} records are missing" in product()
    assert f"before record {following} records are missing" in standalone(auditor, tmp_path)


def test_a_removed_newest_record_is_detected_by_a_noted_hash(
    three: list[HumanReviewRecord],
) -> None:
    as_owner("DELETE FROM reviews_humanreviewrecord WHERE id = %s", three[2].pk)
    assert "published hashes are no longer" in product(("--published", three[2].hash))


def test_an_inserted_record_is_named(
    three: list[HumanReviewRecord], auditor: User, tmp_path: Path
) -> None:
    """A copy of the second one, as if somebody else had decided, linked to the newest."""
    copied = COLUMNS.replace("actor", "'somebody'", 1).replace("version,", "version + 1000,")
    copied = copied.replace("previous_hash, hash", "%s, %s")
    as_owner(
        f"INSERT INTO reviews_humanreviewrecord ({COLUMNS})"
        f" SELECT {copied} FROM reviews_humanreviewrecord WHERE id = %s",
        three[2].hash,
        "e" * 64,
        three[1].pk,
    )
    forged = HumanReviewRecord.objects.latest("id").pk
    assert f"record {forged} " in product()
    assert f"record {forged} " in standalone(auditor, tmp_path)
