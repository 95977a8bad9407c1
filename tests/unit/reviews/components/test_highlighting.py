"""Code as markup: every line there, every character escaped, nothing hidden, never slow."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.components.highlighting import lines_of

LANGUAGES = ("python", "typescript", "javascript", "unknown")
TAG = re.compile(r'<span class="t-[a-z0-9]*">|</span>')


def text(markup: str) -> str:
    return unescape(TAG.sub("", markup))


def test_tokens_have_classes_and_lines_their_numbers() -> None:
    lines = lines_of("# a\n\nx = '<b>'\n", "python")
    assert [line.number for line in lines] == [1, 2, 3]
    assert lines[0].markup == '<span class="t-c1"># a</span>'
    assert "&lt;b&gt;" in lines[2].markup
    assert lines[1].markup == ""


def test_a_token_over_several_lines_is_split() -> None:
    lines = lines_of('"""one\ntwo"""\nx', "python")
    assert [text(line.markup) for line in lines] == ['"""one', 'two"""', "x"]


def test_invisible_characters_are_spelled_out() -> None:
    (line,) = lines_of("a = '\u202e'", "python")
    assert "[U+202E]" in line.markup


@pytest.mark.parametrize("language", LANGUAGES)
@given(code=st.text(st.characters(exclude_categories=("Cs", "Cf", "Cc", "Co")), max_size=60))
def test_no_character_is_lost(language: str, code: str) -> None:
    shown = [text(line.markup) for line in lines_of(code, language)]
    assert shown == ([code] if code else [])


@pytest.mark.parametrize("language", LANGUAGES)
def test_large_code_is_shown_at_once(language: str) -> None:
    started = time.monotonic()
    lines = lines_of("x = '" + "(" * 199_000, language)
    assert len(lines) == 1
    assert time.monotonic() - started < 10
