"""`AnyOf`: many values in one parameter, or a subquery."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.db.models import Q

from workflows.common.db_expressions import AnyOf

pytestmark = pytest.mark.django_db


@pytest.fixture
def groups() -> dict[str, Group]:
    return {name: Group.objects.create(name=name) for name in ("x-a", "x-b", "x-'c{}\\\"")}


def test_rows_of_many_values_with_one_parameter(groups) -> None:
    rows = Group.objects.filter(AnyOf("name", [*groups, *map(str, range(1_000))]))
    assert set(rows) == set(groups.values())
    assert len(rows.query.sql_with_params()[1]) == 1


def test_numbers_and_texts_fit_their_columns(groups) -> None:
    keys = [group.pk for group in groups.values()]
    assert set(Group.objects.filter(Q(AnyOf("pk", keys)) & ~Q(name="x-a"))) == {
        groups["x-b"],
        groups["x-'c{}\\\""],
    }
    assert not Group.objects.filter(AnyOf("pk", [-1])).exists()


def test_no_values_run_no_query(groups, django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        assert list(Group.objects.filter(AnyOf("pk", []))) == []
    assert set(Group.objects.filter(~Q(AnyOf("pk", [])), name__startswith="x-")) == set(
        groups.values()
    )


def test_a_subquery_runs_once_without_a_join(groups, django_assert_num_queries) -> None:
    inner = Group.objects.filter(name__startswith="x-").values("pk")
    rows = Group.objects.filter(AnyOf("pk", inner))
    with django_assert_num_queries(1):
        assert set(rows) == set(groups.values())
    assert "InitPlan" in rows.explain()
    assert "Join" not in rows.explain()
