"""Updates that the database refuses from any client."""

import itertools

import pytest
from django.db import IntegrityError, ProgrammingError, connection, transaction

from tests.integration.workflows.conftest import Engine, value
from workflows.engine.protocol.status import TRANSITIONS, ExecutionStatus
from workflows.models import Execution, ExecutionEvent

PAIRS = list(itertools.product(ExecutionStatus, ExecutionStatus))


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_the_trigger_and_the_table_agree_on_every_pair(
    db: None, old: ExecutionStatus, new: ExecutionStatus
) -> None:
    execution = Execution.objects.create(title="x", status=old, version=3)
    same = old is new

    def move() -> None:
        with transaction.atomic():
            Execution.objects.filter(pk=execution.pk).update(status=new, version=4)

    if same or new in TRANSITIONS[old]:
        move()
    else:
        with pytest.raises(ProgrammingError, match="Invalid transition"):
            move()


def test_a_change_without_a_new_version_is_refused(db: None) -> None:
    execution = Execution.objects.create(title="x", version=3)
    for change in ({"status": "RUNNING"}, {"state": {"x": 1}}, {"version": 2}):
        with pytest.raises(IntegrityError, match="must grow"), transaction.atomic():
            Execution.objects.filter(pk=execution.pk).update(**change)


def test_lease_columns_move_freely(db: None) -> None:
    execution = Execution.objects.create(title="x", version=3)
    Execution.objects.filter(pk=execution.pk).update(fence=9, lease_owner="w")


def test_events_are_never_changed(engine: Engine) -> None:
    execution = engine.run(value("a"))
    events = ExecutionEvent.objects.filter(execution=execution)
    for change in (lambda: events.update(kind="x"), events.delete):
        with pytest.raises(ProgrammingError, match="append-only"):
            change()


def test_a_plan_revision_is_never_changed(engine: Engine) -> None:
    execution = engine.run(value("a"))
    with (
        pytest.raises(ProgrammingError, match="append-only"),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "UPDATE workflows_planrevision SET plan = '{}' WHERE execution_id = %s", [execution.pk]
        )
