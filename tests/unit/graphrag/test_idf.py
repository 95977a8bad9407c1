"""Words of a query: which select the tools a search scores, and which share letters with them."""

from graphrag.retrieval.idf import Idf


def test_the_words_of_the_query_come_before_rare_words_like_them() -> None:
    idf = Idf(tools=500, counts={"file": 200, "filex": 1, "filez": 1})
    terms = idf.terms("file")
    assert set(terms[0].lexemes) == {"file", "filex", "filez"}
    assert idf.selective_lexemes(terms, 201) == ["file", "filex"]
    assert idf.selective_lexemes(terms, 100) == ["file"]


def test_a_word_that_shares_few_letters_counts_by_its_letters_only() -> None:
    idf = Idf(tools=50, counts={"calendar": 5, "kalend": 1, "event": 9})
    (term,) = idf.terms("kalendereintrag")
    assert set(term.lexemes) == {"kalend"}
    assert set(term.letters) == {"kalend", "calendar"}
    assert term.letters["kalend"] > term.letters["calendar"] > 0
