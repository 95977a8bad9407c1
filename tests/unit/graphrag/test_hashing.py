"""The default embedder: deterministic, unit length, near for like texts."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrag.embedding import hashing
from graphrag.models import DIMENSIONS


def document(written: str) -> np.ndarray:
    return hashing.embed_documents([written], dimensions=DIMENSIONS)[0]


def query(written: str) -> np.ndarray:
    return hashing.embed_query(written, dimensions=DIMENSIONS)


def test_the_same_numbers_in_another_process() -> None:
    """Python's own hash differs from process to process; the embedder's must not."""
    program = (
        "from graphrag.embedding import hashing;"
        "print(hashing.embed_query('list branches', dimensions=384).tobytes().hex())"
    )
    other = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == query("list branches").tobytes().hex()


@pytest.mark.parametrize(
    ("asked", "near", "far"),
    [
        ("show commit history", "git log\nShows the commit logs", "fetch\nFetches a URL"),
        ("delete sheets", "delete sheet\nDelete a worksheet", "create sheet\nAdd a worksheet"),
        ("databse tables", "list tables\nList database tables", "git log\nShows the commit logs"),
    ],
)
def test_related_texts_are_nearer(asked: str, near: str, far: str) -> None:
    assert query(asked) @ document(near) > query(asked) @ document(far)


def test_the_first_lines_weigh_more() -> None:
    asked = query("branch")
    assert asked @ document("branch\nlists them") > asked @ document("lists them\nx\ny\nbranch")


def test_a_rare_word_of_the_query_weighs_more() -> None:
    rarity = {"jira": 5.0}
    asked = hashing.embed_query(
        "jira tables", dimensions=DIMENSIONS, rarity=lambda lexeme: rarity.get(lexeme, 0.1)
    )
    assert asked @ document("jira") > asked @ document("tables")


def test_no_words_give_zeros_and_no_texts_an_empty_array() -> None:
    assert not document("--- !!").any()
    assert hashing.embed_documents([], dimensions=DIMENSIONS).shape == (0, DIMENSIONS)


@given(st.text(max_size=300))
def test_any_text_gives_a_unit_vector_or_zeros(written: str) -> None:
    for vector in (document(written), query(written)):
        assert vector.shape == (DIMENSIONS,)
        assert vector.dtype == np.float32
        length = float(np.linalg.norm(vector))
        assert length == pytest.approx(1.0, abs=1e-5) or length == 0.0
