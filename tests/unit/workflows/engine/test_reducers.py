"""Reducers are associative, keep order and have the empty value as identity."""

from hypothesis import given
from hypothesis import strategies as st

from workflows.engine.protocol.reducers import add_decisions, add_messages, add_tasks, merge_context

items = st.lists(st.integers()).map(tuple)
leaf = st.none() | st.integers() | st.text(max_size=3)
contexts = st.dictionaries(
    st.sampled_from("abcd"), st.recursive(leaf, lambda s: st.dictionaries(st.sampled_from("xy"), s))
)


@given(items, items, items)
def test_lists_append(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    for add in (add_messages, add_tasks, add_decisions):
        assert add(add(a, b), c) == add(a, add(b, c)) == (*a, *b, *c)
        assert add((), a) == add(a, ()) == a


@given(contexts, contexts, contexts)
def test_context_merges(a: dict, b: dict, c: dict) -> None:
    merged = merge_context(merge_context(a, b), c)
    assert merged == merge_context(a, merge_context(b, c))
    assert merge_context(a, {}) == merge_context({}, a) == a
    for key in merged:
        last = next(each for each in (c, b, a) if key in each)
        assert merged[key] == last[key]
