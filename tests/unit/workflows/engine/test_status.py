"""The table of statuses, and evolve's respect for it."""

import itertools

import pytest

from workflows.engine.protocol.status import (
    TRANSITIONS,
    ExecutionStatus,
    IllegalTransition,
    check_transition,
)

PAIRS = list(itertools.product(ExecutionStatus, ExecutionStatus))


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_every_pair_follows_the_table(old: ExecutionStatus, new: ExecutionStatus) -> None:
    if new in TRANSITIONS[old]:
        check_transition(old, new)
    else:
        with pytest.raises(IllegalTransition):
            check_transition(old, new)


def test_final_statuses_lead_nowhere() -> None:
    final = {status for status in ExecutionStatus if status.is_final}
    assert final == {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.ABORTED}
