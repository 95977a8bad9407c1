"""Filters and cursors in query strings."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db.models import Q
from hypothesis import given
from hypothesis import strategies as st

from reviews.audit.history import parse_filters
from workflows.common.keyset import BadCursor, cursor_of, past_cursor
from workflows.models import Execution, Hold


def test_filters_are_read() -> None:
    found = parse_filters(
        {
            "execution": "12",
            "node": "a",
            "reviewer": "ann",
            "decision": "approve",
            "phase": "AFTER_EXECUTION",
            "edited": "true",
            "from": "2026-01-31",
            "to": "2026-01-31",
            "q": " words ",
        }
    )
    assert found.errors == ()
    assert (found.execution, found.node, found.reviewer, found.q) == (12, "a", "ann", "words")
    assert (found.decision, found.phase, found.edited) == ("APPROVE", "AFTER_EXECUTION", True)
    assert found.since == datetime(2026, 1, 31, tzinfo=UTC)
    assert found.until == datetime(2026, 2, 1, tzinfo=UTC)


def test_moments_are_exact() -> None:
    found = parse_filters({"from": "2026-01-31T10:00:00+02:00", "to": "2026-01-31T10:00:00 02:00"})
    assert found.since == found.until == datetime(2026, 1, 31, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "query",
    [
        {"execution": "-1"},
        {"execution": "9" * 30},
        {"execution": "\u0661"},
        {"decision": "MAYBE"},
        {"phase": "x"},
        {"edited": "2"},
        {"from": "2026-02-30"},
        {"to": "9999-12-31"},
        {"node": "a\0b"},
        {"q": "x" * 201},
    ],
)
def test_unreadable_filters_are_named_and_ignored(query: dict[str, str]) -> None:
    found = parse_filters(query)
    assert [each.path for each in found.errors] == list(query)
    assert found == parse_filters({}) or found.errors


@given(st.dictionaries(st.sampled_from(["execution", "from", "to", "edited", "phase"]), st.text()))
def test_no_query_breaks_the_filters(query: dict[str, str]) -> None:
    parse_filters(query)


def test_a_cursor_continues_after_its_row() -> None:
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    text = cursor_of(Hold(id="7-1", opened_at=moment), "opened_at")
    later = Q(opened_at__lt=moment) | Q(opened_at=moment, pk__lt="7-1")
    assert past_cursor(text, "opened_at", "lt") == later
    assert past_cursor(cursor_of(Execution(pk=41), ""), "", "lt") == Q(pk__lt=41)


def _encoded(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


@pytest.mark.parametrize("time", ["", "opened_at"])
@pytest.mark.parametrize(
    "text",
    [
        "x",
        "é",
        _encoded([]),
        _encoded({"a": 1}),
        _encoded([True]),
        _encoded([2**70]),
        _encoded(["a", "2026-01-01"]),
        _encoded(["a\0", "2026-01-01T00:00:00+00:00"]),
        _encoded([1, "2026-01-01T00:00:00+00:00"]),
        _encoded(["a", "2026-13-01T00:00:00+00:00"]),
    ],
)
def test_a_forged_cursor_is_refused(text: str, time: str) -> None:
    with pytest.raises(BadCursor):
        past_cursor(text, time, "lt")


@given(st.text())
def test_no_cursor_breaks_the_reader(text: str) -> None:
    for time in ("", "opened_at"):
        try:
            past_cursor(text, time, "lt")
        except BadCursor:
            continue
