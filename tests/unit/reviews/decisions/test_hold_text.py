"""Sentences about holds, redaction, and the summary of a layer."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.decisions.hold_text import approved, closed_headline, headline, rejected
from reviews.decisions.permission_requests import entry_words
from workflows.common.redaction import redact, redact_text
from workflows.executions.layer_summaries import TaskLine, layer_summary, one_line

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
)


@pytest.mark.parametrize(
    ("phase", "tool", "task", "title", "sentence"),
    [
        (
            "BEFORE_EXECUTION",
            "builtin.write_file",
            "w",
            "Release notes",
            "write_file will run in “Release notes”",
        ),
        (
            "BEFORE_EXECUTION",
            "builtin.write_file",
            "w",
            "",
            "write_file will run with these arguments",
        ),
        ("BEFORE_EXECUTION", "", "count", "", "count will run with these arguments"),
        (
            "AFTER_EXECUTION",
            "builtin.echo",
            "draft",
            "Release notes",
            "Review output of draft in “Release notes”",
        ),
        ("AFTER_EXECUTION", "builtin.echo", "draft", "", "Review output of draft"),
        ("layer_approval", "", "", "X", "The next layer in “X” waits for approval"),
        ("escalation", "", "fetch", "X", "fetch asks for more permission in “X”"),
        ("something_new", "", "", "", "A task waits for a decision"),
    ],
    ids=range(8),
)
def test_headline(phase: str, tool: str, task: str, title: str, sentence: str) -> None:
    assert headline(phase, tool, task, title) == sentence


@pytest.mark.parametrize(
    ("phase", "tool", "task", "heading"),
    [
        ("BEFORE_EXECUTION", "builtin.write_file", "w", "Arguments of write_file"),
        ("AFTER_EXECUTION", "builtin.echo", "draft", "Output of draft"),
        ("layer_approval", "", "", "Approval of a layer"),
        ("something_new", "", "", "Review of a task"),
    ],
)
def test_the_heading_of_a_closed_review_has_no_future(
    phase: str, tool: str, task: str, heading: str
) -> None:
    assert closed_headline(phase, tool, task) == heading


def test_effects_are_described() -> None:
    assert rejected("skip", 3) == "Skips this task and 3 tasks that need it; the rest continues."
    assert rejected("skip") == "Skips this task; the rest continues."
    assert rejected("fail", 1) == (
        "Fails this task and skips 1 task that needs it; independent tasks continue."
    )
    assert rejected("abort", 3).startswith("Aborts the run")
    assert approved("BEFORE_EXECUTION", "a.b", "t") == "Runs b as shown."
    assert approved("AFTER_EXECUTION", "", "t") == "Continues with this output."
    assert "permission" in approved("escalation", "", "t")
    assert approved("layer_approval", "", "") == "Continues the run."


@given(JSON, st.integers(10, 200))
def test_one_line_is_one_short_line(value: Any, longest: int) -> None:
    line = one_line(value, longest)
    assert len(line) <= longest
    assert len(line.splitlines()) <= 1


def test_one_line_costs_the_same_for_big_values() -> None:
    big = {"rows": [{"text": "word " * 1_000}] * 2_000}
    started = time.process_time()
    assert one_line(big, 40).startswith('{"rows": [{"text": "word word')
    assert one_line("a\n  b") == "a b"
    assert one_line(10**6_000) == "a long number"
    assert time.process_time() - started < 0.05


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mail joe@x.org now", "mail [e-mail] now"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [secret]"),
        ("password: hunter2, user: x", "password: [secret], user: x"),
        ("password='two words' x", "password=[secret] x"),
        ('{"api_key": "abc"}', '{"api_key": [secret]}'),
        ("https://u:pw@host/x", "https://[secret]@host/x"),
        ("id 3f786850e387550fdab836ed7e6dc881de23001b", "id [token]"),
        ("key QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0NTY3ODk=", "key [token]"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123", "[token]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[token]"),
        ("card 4111 1111 1111 1111.", "card [card]."),
        ("call +49 170 1234567", "call [phone]"),
        ("DE89 3704 0044 0532 0130 00", "[account]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc", "[private key]"),
    ],
    ids=range(14),
)
def test_secrets_and_personal_data_are_redacted(text: str, expected: str) -> None:
    assert redact_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2030-01-02T03:04:05",
        "550e8400-e29b-41d4-a716-446655440000",
        "a-long-file-name-in-kebab-case-without-any-mix.md",
        "order 1234567890123 of 12 items",
        "def token_bucket(limit): pass",
        "/srv/data/releases/notes.md",
    ],
    ids=range(6),
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact_text(text) == text


def test_values_of_secret_keys_are_removed() -> None:
    value = {
        "password": {"deep": ["x"]},
        "max_tokens": 5,
        "list": [{"Authorization": "z", "clientSecret": "y"}],
        "token": None,
        "a@b.org": 1,
        "c@d.org": 2,
    }
    assert redact(value) == {
        "password": "[secret]",
        "max_tokens": 5,
        "list": [{"Authorization": "[secret]", "clientSecret": "[secret]"}],
        "token": None,
        "[e-mail]": 1,
        "[e-mail] 6": 2,
    }


@pytest.mark.parametrize(
    "text",
    [
        "a.",
        "1-",
        "@",
        "://",
        "eyJ",
        "-----BEGIN PRIVATE KEY-----",
        'password="',
        "AA00 ",
        "+1 ",
        "a@b.",
    ],
    ids=range(10),
)
def test_redaction_is_linear(text: str) -> None:
    started = time.process_time()
    redact_text(text * (200_000 // len(text)))
    assert time.process_time() - started < 1


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens, at four characters each."""
    return -(-len(text) // 4)


def lines(count: int, **more: str) -> list[TaskLine]:
    return [TaskLine(f"t{n}", "git.git_log", **more) for n in range(count)]


@pytest.mark.parametrize("count", [1, 3, 12, 100])
@pytest.mark.parametrize(
    "result",
    [
        {"log": "a line of the log\n" * 10_000},
        {
            "rows": [
                {"name": f"n{n}", "mail": "joe@x.org", "password": "hunter2"} for n in range(9_000)
            ]
        },
        ["x" * 250_000] * 4,
    ],
    ids=["text", "rows", "one word"],
)
def test_a_large_layer_is_summarized_within_its_bounds(count: int, result: Any) -> None:
    done = lines(count)
    coming = [TaskLine("write", "builtin.write_file", permission="filesystem", arguments=result)]
    took = []
    for _ in range(3):
        started = time.process_time()
        text = layer_summary(
            done,
            {task.id: result for task in done},
            coming,
            layer=2,
            layers=4,
        )
        took.append(time.process_time() - started)
    assert min(took) < 0.1
    assert estimate_tokens(text) <= 1_000
    assert "joe@x.org" not in text
    assert "hunter2" not in text
    assert text.startswith(f"Layer 2 of 4 is done: {count} task")
    assert "- write (write_file), permission filesystem" in text
    if not isinstance(result, list):
        assert estimate_tokens(text) >= 500


def test_long_results_use_the_space_of_short_ones() -> None:
    done = lines(10)
    results: dict[str, Any] = {task.id: "ok" for task in done} | {"t3": "long word " * 5_000}
    assert 500 <= estimate_tokens(layer_summary(done, results, [])) <= 1_000


def test_the_longest_names_fit() -> None:
    tasks = [
        TaskLine(
            "i" * 500, "s." + "t" * 500, "SUCCEEDED", permission="p" * 500, arguments={"a": "b"}
        )
    ] * 200
    text = layer_summary(tasks, {}, tasks, layer=1, layers=2)
    assert estimate_tokens(text) <= 1_000


def test_a_small_layer_is_summarized_in_full_failures_first() -> None:
    done = [
        TaskLine("log", "git.git_log"),
        TaskLine("diff", "git.git_diff", "FAILED", "no such revision"),
    ]
    assert layer_summary(done, {"log": ["a", "b"]}, []) == (
        "A layer is done: 1 task succeeded, 1 task failed.\n"
        "\n"
        "Done:\n"
        "- diff (git_diff) failed: no such revision\n"
        '- log (git_log) succeeded: ["a", "b"]\n'
        "\n"
        "Next: the end.\n"
        "\n"
        "Approving finishes the run."
    )


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("/srv/data/", "/srv/data/ and everything below"),
        ("/srv/data", "/srv/data"),
        ("/", "/ and everything below"),
        ("$SCRATCH", "working folder"),
        ("$SCRATCH/out", "working folder/out"),
        ("example.org:443", "example.org:443"),
    ],
)
def test_an_entry_of_a_permission_says_what_it_covers(entry: str, words: str) -> None:
    assert entry_words(entry) == words
