"""PostgreSQL refuses records that the product's database role forges."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection

from config.database.roles import grant
from config.devserver.embedded.layout import APP_ROLE, SUPERUSER
from reviews.audit.chain import record_hash, record_text
from reviews.audit.records import record_content
from reviews.models import HumanReviewRecord
from tests.integration.reviews.conftest import MakeUser, Start, decide, echo, only_hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User
from tests.support.servers import database_url

pytestmark = pytest.mark.django_db(transaction=True)
Forge = Callable[..., None]


@pytest.fixture
def app_role() -> str:
    """The address of the test database for the role the product runs as, rights granted."""
    if settings.DATABASES["default"]["USER"] != SUPERUSER:
        pytest.skip("needs the embedded server, where the roles are known")
    name = connection.settings_dict["NAME"]
    url = database_url(APP_ROLE, name)
    grant(database_url(SUPERUSER, name), url)
    return url


@pytest.fixture
def decided(start: Start, reviewer: User) -> HumanReviewRecord:
    hold = only_hold(start(echo("a", phase="BEFORE_EXECUTION")))
    result = decide(hold, reviewer, source="web")
    return result.record


@pytest.fixture
def forge(app_role: str, decided: HumanReviewRecord) -> Forge:
    """Insert a copy of the last record as the product's role, changed and hashed anew."""

    def insert(*, before: str = "", rehash: bool = True, **changes: Any) -> None:
        record = HumanReviewRecord.objects.get(pk=decided.pk)
        record.pk = None
        record.version += 1
        record.previous_hash, record.reviewed_at = decided.hash, datetime.now(UTC)
        sequence = json.loads(decided.canonical)["sequence"] + 1
        sequence = changes.pop("sequence", sequence)
        for name, value in changes.items():
            setattr(record, name, value)
        if rehash:
            record.canonical = record_text(record_content(record, sequence))
            record.hash = record_hash(record.previous_hash, record.canonical)
        fields = [f for f in HumanReviewRecord._meta.concrete_fields if not f.primary_key]
        values = [f.get_db_prep_save(getattr(record, f.attname), connection) for f in fields]
        names = ", ".join(f.column for f in fields)
        marks = ", ".join(["%s"] * len(fields))
        with psycopg.connect(app_role) as session:
            if before:
                session.execute(before)
            session.execute(
                f"INSERT INTO reviews_humanreviewrecord ({names}) VALUES ({marks})", values
            )

    return insert


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"previous_hash": "0" * 64}, "continue the chain"),
        ({"sequence": 1}, "continue the chain"),
        ({"sequence": 9}, "continue the chain"),
        ({"rehash": False, "hash": "f" * 64, "canonical": '{"sequence": 2}'}, "hash of its text"),
        ({"reviewed_at": datetime.now(UTC) - timedelta(hours=1)}, "time of now"),
        ({"reviewed_at": datetime.now(UTC) + timedelta(hours=1)}, "time of now"),
        ({}, "event of its decision"),
        ({"actor": "auditor"}, "event of its decision"),
    ],
)
def test_a_forged_record_is_refused(forge: Forge, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match=said):
        forge(**changes)
    assert HumanReviewRecord.objects.count() == 1


def test_a_temporary_table_does_not_stand_in_for_the_journal(forge: Forge) -> None:
    pretend = "CREATE TEMPORARY TABLE {0} AS SELECT * FROM public.{0}"
    with pytest.raises(psycopg.errors.CheckViolation, match="event of its decision"):
        forge(
            before=pretend.format("workflows_executionevent")
            + "; UPDATE pg_temp.workflows_executionevent SET seq = seq + 1"
        )


def test_columns_have_to_equal_the_signed_text(
    forge: Forge, decided: HumanReviewRecord, make_user: MakeUser
) -> None:
    other = make_user("other")
    text = json.loads(decided.canonical) | {
        "sequence": 2,
        "reviewed_at": datetime.now(UTC),
        "version": decided.version + 1,
    }
    canonical = record_text(text)
    with pytest.raises(psycopg.errors.CheckViolation, match="what it was signed with"):
        forge(
            rehash=False,
            canonical=canonical,
            hash=record_hash(decided.hash, canonical),
            reviewer_id=other.pk,
        )
