"""Steps and literals of an intent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.planning import intents, literals


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


def values(written: str) -> list[tuple[str, str | int]]:
    return [(each.kind, each.value) for each in literals.find(written)]


def test_literals_are_found_by_their_kind() -> None:
    assert values(
        'fetch https://example.org/a?b=1. Take the last 20 of "open issues" from ./data/in.csv'
    ) == [
        ("url", "https://example.org/a?b=1"),
        ("number", 20),
        ("quoted", "open issues"),
        ("path", "./data/in.csv"),
    ]
    (step,) = intents.steps("take the last 20 from ./data/in.csv")
    assert step.extension == "csv"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("write lea@example.org", [("email", "lea@example.org")]),
        ("due 2026-12-01 at 16:30", [("date", "2026-12-01"), ("time", "16:30")]),
        ("from 2026-12-01T10:00:00 on", [("datetime", "2026-12-01T10:00:00")]),
        ("close OPS-42 in acme/shop", [("key", "OPS-42"), ("slug", "acme/shop")]),
        ("tell #ops and @mia", [("mark", "#ops"), ("mark", "@mia")]),
        ("read /etc/a.yaml, then ~/notes", [("path", "/etc/a.yaml"), ("path", "~/notes")]),
        ("show three pods of api-server", [("number", 3), ("name", "api-server")]),
        ("fetch 'https://example.org/'", [("url", "https://example.org/")]),
        ("an article on Ada Lovelace", [("name", "Ada Lovelace")]),
        ("log 2h of work", [("duration", "2h")]),
        ("wait half an hour, not 1h 30m", [("duration", "half an hour"), ("duration", "1h 30m")]),
        ("book it tomorrow at 3 pm", [("relative", "tomorrow"), ("time", "15:00")]),
        ("free next week or on Monday", [("relative", "next week"), ("relative", "on Monday")]),
        ("write =SUM(B2:B9) to the base appA1b2",
         [("formula", "=SUM(B2:B9)"), ("name", "appA1b2")]),
        ("List all files", []),
    ],
)  # fmt: skip
def test_typed_values_are_told_apart(written: str, expected: list[tuple[str, str]]) -> None:
    assert values(written) == expected


def test_a_quoted_file_is_a_file() -> None:
    assert values("list '.' and write 'done' to 'out/notes.md'") == [
        ("path", "."),
        ("quoted", "done"),
        ("path", "out/notes.md"),
    ]


def test_the_words_around_a_literal_belong_to_it_alone() -> None:
    _, second = literals.find("replace 'foo' with 'bar' in the text")
    assert (second.before, second.after) == (("with",), ("in", "the", "text"))


@pytest.mark.parametrize(
    ("intent", "expected"),
    [
        ("before you delete it, list its commits", ["list its commits", "delete it"]),
        ("after reading the file, move it", ["read the file", "move it"]),
        ("list the files, folders and logs", ["list the files and folders and logs"]),
        ("stage the files and commit", ["stage the files", "commit"]),
        ("please read it and then could you post it", ["please read it", "could you post it"]),
        ("run the tests, and the report of it", ["run the tests and the report of it"]),
        ("show the page and its links", ["show the page", "show its links"]),
        ("delete the page and its links", ["delete the page and its links"]),
    ],
)  # fmt: skip
def test_clauses_become_steps_in_the_order_of_their_actions(
    intent: str, expected: list[str]
) -> None:
    assert [step.text for step in intents.steps(intent)] == expected


@pytest.mark.parametrize(
    ("text", "refers"),
    [
        ("delete it", True),
        ("post the result to the channel", True),
        ("show the last 5 commits", False),
        ("write 'it works' to a.txt", False),
    ],
)
def test_words_that_refer_to_an_earlier_step(text: str, refers: bool) -> None:
    (step,) = intents.steps(text)
    assert step.refers_back is refers


CATALOGUE = intents.Vocabulary(verbs=frozenset({"cordon"}), stems={"checkout", "branch"})


def test_the_verbs_of_the_catalogue_begin_a_step() -> None:
    intent = "read the log and cordon the node"
    assert len(intents.steps(intent)) == 1
    assert [step.text for step in intents.steps(intent, vocabulary=CATALOGUE)] == [
        "read the log",
        "cordon the node",
    ]


@pytest.mark.parametrize(
    ("intent", "antecedent", "words"),
    [
        ("create a branch named x-1 and check it out", "branch", {"branch", "checkout"}),
        ("get issue 88 in acme/shop, then delete it", "issue", {"issue"}),
        ("read the last 20 messages, then delete them", "messages", {"messages"}),
        ("read the page, print it, then delete it", "page", {"page"}),
        ("read the page, then delete the link", "page", set()),
        ("find a service, then describe the pod it created", "service", set()),
    ],
)  # fmt: skip
def test_a_pronoun_stands_for_the_object_of_an_earlier_step(
    intent: str, antecedent: str, words: set[str]
) -> None:
    last = intents.steps(intent, vocabulary=CATALOGUE)[-1]
    assert last.antecedent == antecedent
    known = {"branch", "checkout", "issue", "messages", "page", "service"}
    assert known.intersection(last.query.split()) == words


def test_opening_something_new_creates_it() -> None:
    verbs = [intents.steps(text)[0].verb for text in ("open a request", "open the request")]
    assert verbs == ["creat", "open"]


def test_the_query_names_no_values() -> None:
    (step,) = intents.steps("write 'some text' to out/notes.md")
    assert "some" not in step.query
    assert "notes" not in step.query
    assert "file" in step.query
    (step,) = intents.steps("write it to sales.xlsx")
    assert "excel workbook file" in step.query


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
