"""Words, stems, groups of like meaning."""

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


def test_synonyms_share_a_group() -> None:
    remove, delete = tokenizer.GROUPS_BY_STEM["remov"], tokenizer.GROUPS_BY_STEM["delet"]
    assert set(remove) & set(delete)
    assert not set(delete) & set(tokenizer.GROUPS_BY_STEM["fetch"])


def test_no_group_label_is_the_stem_of_a_word_in_the_thesaurus() -> None:
    assert not tokenizer.GROUPS.keys() & tokenizer.GROUPS_BY_STEM.keys()


def test_a_question_asks_for_a_reading_tool() -> None:
    assert tokenizer.query_groups("which sheets exist")["list0"] > 0
    assert "list0" not in tokenizer.query_groups("delete sheets")


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("git_create_branch", "change"),
        ("which branches are there", "read"),
        ("please remove the note", "delete"),
        ("banana", None),
    ],
)
def test_the_first_verb_decides_the_action(written: str, kind: str | None) -> None:
    assert tokenizer.action(written) == kind


@given(st.text(max_size=200))
def test_any_text_gives_lower_case_words_that_split_no_further(written: str) -> None:
    for word in tokenizer.words(written):
        assert word
        assert tokenizer.words(word.lower()) in ([word], tokenizer.words(word))
    assert isinstance(tokenizer.index_text(written), str)
