"""Words and stems."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag import tokenizer


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("git.git_log", ["git", "git", "log"]),
        ("listAllowedDirectories", ["list", "allowed", "directories"]),
        ("XMLParser", ["xml", "parser"]),
        ("search arXiv", ["search", "arxiv"]),
        ("read-only (2 files)", ["read", "only", "2", "files"]),
        ("", []),
    ],
)
def test_names_and_sentences_become_the_same_words(written: str, expected: list[str]) -> None:
    assert tokenizer.words(written) == expected


def test_forms_of_a_word_share_one_stem() -> None:
    forms = ["commit", "commits", "committed", "committing"]
    assert {tokenizer.stem(form) for form in forms} == {"commit"}


def test_stop_words_are_dropped_unless_nothing_remains() -> None:
    assert tokenizer.stems("show me the logs of a repository") == ["show", "log", "repositori"]
    assert tokenizer.stems("what is it") == ["what", "is", "it"]


@given(st.text(max_size=200))
def test_any_text_gives_lower_case_words_that_split_no_further(written: str) -> None:
    for word in tokenizer.words(written):
        assert word
        assert tokenizer.words(word.lower()) in ([word], tokenizer.words(word))
    assert isinstance(tokenizer.spaced(written), str)
