"""Values as people read them: Markdown that hides and loads nothing, tables of objects."""

from __future__ import annotations

import pytest

from reviews.components.markdown import is_markdown, render_markdown
from reviews.components.value_view import value_view


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;"),
        ("<!-- hidden -->", "&lt;!-- hidden --&gt;"),
        ("![x](https://evil.example/pixel.png)", "evil.example/pixel.png"),
        ("[x]: https://evil.example 'hidden words'", "hidden words"),
        ("[here](javascript:alert(1))", "[here](javascript:alert(1))"),
        ("[here](/logout)", "[here](/logout)"),
        ("[here](data:text/html,x)", "[here](data:text/html,x)"),
        ("[here](https://evil.example/a)", "</a> (https://evil.example/a)"),
        ("<https://ok.example>", '<a href="https://ok.example"'),
        ("# Title", "<h4>Title</h4>"),
    ],
)
def test_markdown_hides_nothing_and_loads_nothing(text: str, shown: str) -> None:
    html = render_markdown(text)
    assert shown in html
    assert "<img" not in html
    assert "<script" not in html


def test_a_link_says_where_it_goes_and_takes_nothing_along() -> None:
    html = render_markdown("[mail](mailto:a@b.example 'a hidden title')")
    assert 'rel="noopener noreferrer nofollow"' in html
    assert "title=" not in html
    assert "mailto:a@b.example" in html


@pytest.mark.parametrize(
    ("text", "facts", "is_it"),
    [
        ("# Notes\n\n- one", {}, True),
        ("# a comment\nprint(1)\n", {}, False),
        ("one\ntwo", {"key": "markdown"}, True),
        ("one\ntwo", {"file": "docs/NOTES.md"}, True),
        ("one\ntwo", {"schema": {"contentMediaType": "text/markdown"}}, True),
        ("one line", {"key": "markdown"}, False),
    ],
)
def test_what_counts_as_markdown(text: str, facts: dict[str, object], is_it: bool) -> None:
    assert is_markdown(text, **facts) is is_it  # type: ignore[arg-type]


def test_flat_objects_are_a_table_and_others_are_parts() -> None:
    table = value_view([{"a": 1, "b": "x"}, {"a": 2}])
    assert (table.kind, table.columns, table.rows) == ("table", ("a", "b"), (("1", "x"), ("2", "")))
    assert value_view([{"a": {"deep": 1}}]).kind == "parts"
    assert value_view(["x", "y"]).kind == "parts"
    assert value_view({}).text == "{}"


def test_what_is_left_out_is_counted() -> None:
    assert value_view([{"a": number} for number in range(250)]).more == 50
