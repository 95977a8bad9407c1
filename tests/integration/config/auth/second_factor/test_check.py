"""The system check of the tables that step-up needs."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.db import connection

from config.checks import STEP_UP_TABLES, step_up_tables

pytestmark = pytest.mark.django_db


def found() -> list[CheckMessage]:
    return step_up_tables(None, databases=["default"])


def run(*statements: str) -> None:
    with connection.cursor() as cursor:
        for each in statements:
            cursor.execute(each)


@pytest.fixture(params=["high_risk", "all"])
def on(request: pytest.FixtureRequest, settings: Any) -> None:
    settings.HOLDPOINT = {**settings.HOLDPOINT, "step_up": request.param}


def test_the_check_passes_while_step_up_is_off() -> None:
    assert found() == []


def test_the_check_queries_only_the_named_databases(on: None) -> None:
    assert step_up_tables(None) == []


def test_missing_tables_are_named_and_do_not_stop_the_migration(on: None) -> None:
    (told,) = found()
    assert (told.id, told.is_serious()) == ("holdpoint.W002", False)
    assert "account_emailaddress" in told.msg
    assert "manage.py migrate" in str(told.hint)


def test_a_role_without_rights_is_an_error(on: None) -> None:
    run(*(f"CREATE TABLE {name} (id int)" for name in STEP_UP_TABLES))
    assert found() == []
    run("CREATE ROLE step_up_app", "SET LOCAL ROLE step_up_app")
    (told,) = found()
    assert (told.id, told.is_serious()) == ("holdpoint.E008", True)
    assert "account_emailaddress" in told.msg
    run("RESET ROLE", "GRANT SELECT ON account_emailaddress TO step_up_app")
    run("GRANT SELECT, INSERT, UPDATE, DELETE ON mfa_authenticator TO step_up_app")
    run("SET LOCAL ROLE step_up_app")
    (told,) = found()
    assert "account_emailaddress" in told.msg
    run("RESET ROLE", "GRANT INSERT, UPDATE, DELETE ON account_emailaddress TO step_up_app")
    run("SET LOCAL ROLE step_up_app")
    assert found() == []
