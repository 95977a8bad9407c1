"""Similarity of payloads: bounded, symmetric, highest for equal ones."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reviews.decisions.similar_decisions import features, similarity

payloads = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(payloads, payloads)
def test_similarity_is_bounded_symmetric_and_1_for_equal_payloads(one: Any, other: Any) -> None:
    a, b = features(one), features(other)
    assert 0 <= similarity(a, b) <= 1
    assert similarity(a, b) == pytest.approx(similarity(b, a))
    if a:
        assert similarity(a, a) == pytest.approx(1)


def test_more_common_text_is_more_similar() -> None:
    here = features({"path": "docs/NOTES.md", "content": "release notes of may"})
    near = features({"path": "docs/NOTES.md", "content": "release notes of june"})
    far = features({"url": "https://example.com"})
    assert similarity(here, near) > 0.8
    assert similarity(here, far) == 0
