"""Words of a query that select the tools a search scores."""

from graphrag.retrieval.idf import Idf


def test_the_words_of_the_query_come_before_rare_words_like_them() -> None:
    idf = Idf(tools=500, counts={"file": 200, "filex": 1, "filez": 1})
    terms = idf.terms("file")
    assert set(terms[0].lexemes) == {"file", "filex", "filez"}
    assert idf.selective_lexemes(terms, 201) == ["file", "filex"]
    assert idf.selective_lexemes(terms, 100) == ["file"]
