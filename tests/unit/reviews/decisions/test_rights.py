"""The right to decide a hold, without a database."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reviews.decisions.rights import deciding_groups, right_of
from workflows.models import Execution, Hold, Shaper


def person(name: str = "ann", number: int = 7, *, active: bool = True) -> Any:
    return SimpleNamespace(pk=number, is_active=active, get_username=lambda: name)


def hold(**fields: Any) -> Hold:
    execution = Execution(created_by_id=fields.pop("created_by", 1))
    given = {"groups": ["reviewer"], "decider": "human", "approvals": [], **fields}
    return Hold(id="1-1", execution=execution, **given)


def right(
    user: Any,
    of: Hold,
    groups: set[str],
    *,
    shaped: frozenset[str] = frozenset(),
    four_eyes: bool = True,
) -> Any:
    return right_of(user, of, groups=groups, shaped=shaped, four_eyes=four_eyes)


def test_a_member_of_its_group_decides() -> None:
    found = right(person(), hold(), {"reviewer"})
    assert (found.approve, found.reject, found.reason) == (True, True, "")


@pytest.mark.parametrize(
    ("user", "of", "groups", "code"),
    [
        (person(active=False), hold(), {"reviewer"}, "inactive"),
        (person(), hold(decider="agent"), {"reviewer"}, "agent_decides"),
        (person(), hold(), {"reviewer", "auditor"}, "auditor"),
        (person(), hold(), {"operator"}, "not_in_group"),
        (person(), hold(groups=["operator"]), {"operator"}, "not_in_group"),
        (person(), hold(groups=[]), {"reviewer"}, "not_in_group"),
        (person("bob"), hold(approvals=["bob"], approver_ids=[7]), {"reviewer"}, "already_voted"),
    ],
)
def test_other_users_do_not_decide(user: Any, of: Hold, groups: set[str], code: str) -> None:
    found = right(user, of, groups)
    assert (found.approve, found.reject, found.code) == (False, False, code)
    assert found.reason


def test_votes_count_only_while_the_hold_is_open() -> None:
    over = hold(approvals=["ann"], approver_ids=[7], status="APPROVED")
    assert right(person(), over, {"reviewer"}).approve


@pytest.mark.parametrize(
    ("created_by", "shaped"),
    [(7, frozenset()), *((1, frozenset({way})) for way in Shaper.Way.values)],
)
def test_four_eyes(created_by: int, shaped: frozenset[str]) -> None:
    of = hold(created_by=created_by)
    found = right(person(), of, {"reviewer"}, shaped=shaped)
    assert (found.approve, found.reject, found.code) == (False, True, "four_eyes")
    assert "somebody else has to approve" in found.reason
    assert right(person(), of, {"reviewer"}, shaped=shaped, four_eyes=False).approve


def test_viewing_groups_do_not_decide() -> None:
    everything = {"auditor", "operator", "integrator", "reviewer", "admin", "legal"}
    assert deciding_groups(everything, everything) == {"reviewer", "admin", "legal"}
