"""The desk's template tags: states, times, hostile text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils.safestring import SafeString

from reviews.components.json_diffs import MISSING
from reviews.components.labels import progress_text
from reviews.templatetags import desk
from workflows.common.schemas import form_fields
from workflows.engine.protocol.status import ExecutionStatus, TaskStatus
from workflows.models import Execution

BIDI = chr(0x202E)
ZERO_WIDTH = chr(0x200B)


@pytest.mark.parametrize("status", [*ExecutionStatus, *TaskStatus, "APPROVE", "REJECT", "HELD"])
def test_every_state_has_a_shape_and_a_word(status: str) -> None:
    look = desk.look_of(status)

    assert look.meaning in {"waiting", "good", "bad", "running", "quiet"}
    assert look.shape.strip()
    assert look.word == look.word.lower()
    assert look.shape != "·", "an unknown state"


@pytest.mark.parametrize(("layer", "text"), [(-1, "layer 1 of 3"), (2, "layer 3 of 3")])
def test_a_run_is_in_its_first_layer_from_the_start(layer: int, text: str) -> None:
    assert progress_text(Execution(layer=layer, total_layers=3)) == text


def test_a_chip_escapes_its_text() -> None:
    chip = desk.status_chip("APPROVE", word="<b>mallory</b> approved")

    assert "&lt;b&gt;mallory" in chip
    assert "good" in chip


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "now"),
        (1, "1 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (86_400, "1 day"),
        (200_000, "2 days"),
    ],
)
def test_durations_have_one_unit(seconds: float, words: str) -> None:
    assert desk.duration_text(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (0.04, "0 s"), (0.4, "0.4 s"), (1, "1 s"), (3_600, "1 h")]
)
def test_short_durations_are_not_open_ended(seconds: float, words: str) -> None:
    assert desk.lasting_text(seconds) == words


def test_ago_and_left_carry_the_exact_time() -> None:
    moment = datetime.now(UTC) - timedelta(minutes=3, seconds=5)

    assert ">3 min ago</time>" in desk.ago(moment)
    assert f'datetime="{moment.isoformat()}"' in desk.ago(moment)
    assert ">overdue</time>" in desk.left(moment)
    assert ">5 min left</time>" in desk.left(moment + timedelta(minutes=8))
    assert desk.ago(None) == desk.left(None) == desk.clock(None) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (90 * 86_400 - 1, "90 days"),
        (89.4 * 86_400, "89 days"),
        (23.6 * 3_600, "1 day"),
        (5_400 + 1, "2 h"),
        (3_599, "1 h"),
        (1_739, "29 min"),
        (59.7, "1 min"),
        (40, "40 s"),
        (0.2, "now"),
    ],
)
def test_the_time_that_remains_is_rounded(seconds: float, words: str) -> None:
    assert desk.remaining_text(seconds) == words


def test_a_clock_with_the_date_names_it_today_too() -> None:
    assert ">12 March 2024, 12:30</time>" in desk.clock(
        datetime(2024, 3, 12, 12, 30, tzinfo=UTC), date=True
    )
    today = datetime.now(UTC)
    assert f" {today.year}, " in desk.clock(today, date=True)


def test_the_clock_names_the_day_when_it_is_not_today() -> None:
    assert ">12 Mar " in desk.clock(datetime(2024, 3, 12, 12, 30, tzinfo=UTC))


def test_invisible_and_bidirectional_characters_are_spelled_out() -> None:
    assert desk.visible(f"invoice{BIDI}fdp.exe{ZERO_WIDTH}") == "invoice[U+202E]fdp.exe[U+200B]"
    assert desk.visible("a\tb\nc") == "a\tb\nc"
    assert desk.visible("\0") == "[U+0000]"


def test_stress_escapes_and_marks_the_subject_once() -> None:
    marked = desk.stress("<i> ran <i>", "<i>")

    assert isinstance(marked, SafeString)
    assert marked == "<b>&lt;i&gt;</b> ran &lt;i&gt;"
    assert desk.stress("a < b", "") == "a &lt; b"
    assert desk.stress("a < b", "elsewhere") == "a &lt; b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (MISSING, "(nothing)"),
        ("", "(empty)"),
        ("a", "a"),
        (None, "null"),
        (False, "false"),
        (9007199254740993, "9007199254740993"),
        ({"é": [1]}, '{\n  "é": [\n    1\n  ]\n}'),
    ],
)
def test_a_diff_distinguishes_absent_null_and_empty(value: object, text: str) -> None:
    assert desk.value_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", '"a\nb"'),
        ("C:\\new\t", r'"C:\\new\t"'),
        (r"\n" + "\n", '"\\\\n\n"'),
        ([1, None], "[\n  1,\n  null\n]"),
    ],
)
def test_only_line_breaks_of_texts_are_not_escaped(value: object, text: str) -> None:
    assert desk.json_with_line_breaks(value) == text


@pytest.mark.parametrize(
    ("rules", "hint"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9.0}, "at least 1, at most 9"),
        ({"description": "Share", "exclusiveMinimum": 0.5}, "Share · more than 0.5"),
        ({"type": "string", "description": "Name"}, "Name"),
        ({"type": "string"}, ""),
    ],
)
def test_a_field_says_its_limits(rules: dict[str, object], hint: str) -> None:
    (field,) = form_fields({"properties": {"a": rules}}, {})
    assert desk.field_hint(field) == hint


def test_ids_differ_by_path_and_prefix_and_keep_the_mark_of_a_new_item() -> None:
    ids = {desk.dom_id("a.b"), desk.dom_id("a.c"), desk.dom_id("a.b", "w1")}

    assert len(ids) == 3
    assert all(" " not in each for each in ids)
    assert desk.dom_id("tags.NEW").endswith("-NEW")


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (1, "change", "1 change"),
        (0, "change", "0 changes"),
        (2, "entry,entries", "2 entries"),
    ],
)
def test_counts_include_their_noun(number: int, noun: str, words: str) -> None:
    assert desk.counted(number, noun) == words


@pytest.mark.parametrize(("text", "rows"), [("", 3), ("a\nb\nc\nd", 5), ("x" * 10_000, 14)])
def test_a_textarea_is_as_high_as_its_text(text: str, rows: int) -> None:
    assert desk.rows_for(text) == rows


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, ""), (0.42, "0.4 s"), (12.7, "12 s"), (120, "2 min")]
)
def test_short_spans_keep_a_decimal(seconds: float | None, words: str) -> None:
    assert desk.seconds_text(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-3, "0 s"), (0.9, "0 s"), (59.9, "59 s"), (80, "1 min 20 s"), (7500, "2 h 5 min")],
)
def test_a_running_clock(seconds: float, words: str) -> None:
    assert desk.elapsed_text(seconds) == words
    shown = desk.elapsed(datetime.now(UTC) - timedelta(seconds=80))
    assert 'data-clock="for"' in shown
    assert ">1 min 2" in shown
