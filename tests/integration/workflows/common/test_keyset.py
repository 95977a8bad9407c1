"""Reads of a long list, some rows at a time."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from workflows.common.keyset import BadCursor, in_batches, past_row

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("rows", "queries"), [(0, 1), (2, 1), (3, 2), (7, 3)])
def test_every_row_is_read_once_in_order(
    rows: int, queries: int, django_assert_num_queries: Any
) -> None:
    Group.objects.all().delete()
    Group.objects.bulk_create([Group(name=f"{9 - number}") for number in range(rows)])
    groups = Group.objects.order_by("-id")
    with django_assert_num_queries(queries):
        names = [group.name for group in in_batches(groups, by="name", size=3)]
    assert names == sorted(groups.values_list("name", flat=True))
    assert len(names) == rows


@pytest.mark.parametrize("pk", ["", "a\0b", "\ud800", 7, None])
def test_an_impossible_id_is_no_cursor(pk: Any) -> None:
    with pytest.raises(BadCursor):
        past_row("opened_at", "2026-05-01T00:00:00+00:00", pk, "lt")
