"""Words that share letters."""

from hypothesis import given
from hypothesis import strategies as st

from graphrag.retrieval.letters import LetterIndex

VOCABULARY = ["directori", "direct", "branch", "repositori", "commit", "comment", "tabl"]


def near(word: str) -> list[str]:
    return list(LetterIndex(VOCABULARY).similar(word, at_least=0.2, most=3))


def test_a_misspelt_word_is_near_its_right_spelling() -> None:
    assert "directori" in near("direcotri")
    assert near("repositri")[0] == "repositori"
    assert near("branhc") == ["branch"]
    assert near("zebra") == []


def test_a_known_word_comes_first_with_similarity_one() -> None:
    found = LetterIndex(VOCABULARY).similar("direct", at_least=0.2, most=3)
    assert next(iter(found)) == "direct"
    assert abs(found["direct"] - 1.0) < 1e-9
    assert 0.2 <= found["directori"] < 1.0


@given(st.lists(st.text(min_size=1, max_size=12), max_size=20), st.text(max_size=12))
def test_similarities_are_shares_in_falling_order(vocabulary: list[str], word: str) -> None:
    found = LetterIndex(set(vocabulary)).similar(word, at_least=0.1, most=5)
    values = list(found.values())
    assert values == sorted(values, reverse=True)
    assert all(0.1 <= value <= 1.0 + 1e-9 for value in values)
    assert len(found) <= 5
