"""Steps and literals of an intent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.planning import intents


@pytest.mark.parametrize(
    ("intent", "expected"),
    [
        ("read the git log", ["read the git log"]),
        ("read the log and draft release notes", ["read the log", "draft release notes"]),
        ("convert the date and time", ["convert the date and time"]),
        ("find and replace text", ["find and replace text"]),
        ("fetch it now, then parse html; save it", ["fetch it now", "parse html", "save it"]),
        ("1. list files\n2. read the first", ["list files", "read the first"]),
        ("open https://x.org/a,b;c and save it", ["open https://x.org/a,b;c", "save it"]),
        ("write 'first this, then that' to a file", ["write 'first this, then that' to a file"]),
        ("", []),
        (" ,;. ", []),
    ],
)  # fmt: skip
def test_an_intent_parts_where_a_new_action_begins(intent: str, expected: list[str]) -> None:
    assert [step.text for step in intents.steps(intent)] == expected


def test_then_means_after_and_and_means_parallel() -> None:
    found = intents.steps("read the log and compare branches, then write notes")
    assert [step.after_previous for step in found] == [False, False, True]


def test_literals_are_found_by_their_kind() -> None:
    found = intents.literals(
        'fetch https://example.org/a?b=1. Take the last 20 of "open issues" from ./data/in.csv'
    )
    assert found.urls == ("https://example.org/a?b=1",)
    assert found.numbers == (20,)
    assert found.quoted == ("open issues",)
    assert found.paths == ("./data/in.csv",)
    assert found.extension == "csv"


def test_a_quoted_file_is_a_file() -> None:
    found = intents.literals("list '.' and write 'done' to 'out/notes.md'")
    assert found.quoted == ("done",)
    assert found.paths == (".", "out/notes.md")


def test_the_query_names_no_values() -> None:
    (step,) = intents.steps("write 'some text' to out/notes.md")
    assert "some" not in step.query
    assert "notes" not in step.query
    assert "file" in step.query


def test_the_head_omits_the_object() -> None:
    (step,) = intents.steps("search arXiv for diffusion models")
    assert step.head.strip() == "search arXiv"
    (step,) = intents.steps("look for cats")
    assert step.head == step.query


@given(st.text(max_size=400))
def test_any_text_gives_at_most_twelve_steps_with_words(intent: str) -> None:
    found = intents.steps(intent)
    assert len(found) <= intents.MAX_STEPS
    assert all(step.text.strip() for step in found)
    assert not any(step.after_previous for step in found[:1])
