"""Migration workflows.0053 fills the ids of people in rows that have only names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from tests.integration.reviews.conftest import Start, decide, echo, only_hold
from workflows.models import Execution, Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db

migration: Any = import_module("workflows.migrations.0053_identity_by_user_id")

FORGET = """
UPDATE workflows_executionevent SET actor_id = NULL;
UPDATE workflows_commandlog SET actor_id = NULL;
UPDATE workflows_hold SET approver_ids = '{}', decided_by_id = NULL;
UPDATE workflows_execution SET state = state #- '{holds,0,approver_ids}'
    #- '{holds,0,answer,actor_id}';
ALTER TABLE workflows_shaper ADD COLUMN name varchar(150), ALTER COLUMN user_id DROP NOT NULL;
UPDATE workflows_shaper AS shaper SET name = username, user_id = NULL
  FROM auth_user WHERE auth_user.id = shaper.user_id;
"""


def known() -> dict[str, list[Any]]:
    tables = {
        "workflows_executionevent": "actor_id",
        "workflows_commandlog": "actor_id",
        "workflows_hold": "approver_ids, decided_by_id",
        "workflows_execution": "state",
        "workflows_shaper": "user_id",
    }
    rows: dict[str, list[Any]] = {}
    with connection.cursor() as cursor:
        for table, columns in tables.items():
            cursor.execute(f"SELECT {columns} FROM {table} ORDER BY id")
            rows[table] = cursor.fetchall()
    return rows


def test_ids_are_filled_where_a_user_has_the_stored_name(
    start: Start, reviewer: User, reviewer2: User
) -> None:
    voted = only_hold(start(echo("a", phase="BEFORE_EXECUTION", quorum=3)))
    decide(voted, reviewer2)
    decide(voted, reviewer)
    decide(only_hold(start(echo("b", phase="BEFORE_EXECUTION"))), reviewer, undo_seconds=600)
    decide(only_hold(start(echo("c", phase="BEFORE_EXECUTION"))), reviewer)
    before = known()
    voted.refresh_from_db()
    assert voted.approver_ids == [reviewer2.pk, reviewer.pk]
    with connection.cursor() as cursor:
        # Foreign keys that wait for the end of the transaction forbid to alter their tables.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(migration.triggers("DISABLE") + FORGET)
        assert known() != before
        cursor.execute(migration.FILL + migration.triggers("ENABLE"))
    assert known() == before
    assert Hold.objects.filter(decided_by_id=reviewer.pk).count() == 2
    assert Execution.objects.count() == 3
