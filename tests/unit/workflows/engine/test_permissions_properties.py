"""Laws of the permission algebra, over generated sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.engine.policy.permissions import (
    OPERATIONS,
    Operation,
    PermissionSet,
    cap,
    smallest_cover,
)

_HOSTS = (
    "*", "*:443", "*:80", "*.example.com", "*.example.com:443", "*.a.example.com", "example.com",
    "a.example.com", "a.example.com:443", "b.a.example.com:80", "example.org:443", "8.8.8.8:53",
    "localhost:80", "localhost:443", "127.0.0.1:80", "db.internal:5432", "[::1]:80",
)  # fmt: skip
_PATHS = (
    "/", "/srv", "/srv/", "/srv/data", "/srv/data/", "/srv/database", "/srv/data/a",
    "/etc", "/etc/x", "$SCRATCH",
    "$SCRATCH/in", "$SCRATCH/in/a", "$SCRATCH/out",
)  # fmt: skip
_NAMES = ("HOME", "PATH", "TOKEN")
_PROGRAMS = ("*", "git", "ls")
_ENTRIES = dict(zip(OPERATIONS, (_HOSTS, _PATHS, _PATHS, _NAMES, _PROGRAMS), strict=True))


def some(entries: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(entries), max_size=4).map(tuple)


sets = st.builds(
    PermissionSet,
    hosts=some(_HOSTS),
    read_paths=some(_PATHS),
    write_paths=some(_PATHS),
    env_names=some(_NAMES),
    run=some(_PROGRAMS),
)

resources = st.sampled_from(OPERATIONS).flatmap(
    lambda operation: st.tuples(
        st.just(operation),
        st.sampled_from(
            tuple(
                entry
                for entry in _ENTRIES[operation]
                if "*" not in entry and (operation != "net" or ":" in entry)
            )
        ),
    )
)


@given(sets)
def test_canonical_form_is_a_fixed_point(a: PermissionSet) -> None:
    assert PermissionSet.model_validate(a.model_dump()) == a
    assert PermissionSet.model_validate_json(a.model_dump_json()) == a


@given(sets, sets, sets)
def test_covering_is_a_partial_order(a: PermissionSet, b: PermissionSet, c: PermissionSet) -> None:
    assert a.covers(a)
    if a.covers(b) and b.covers(a):
        assert a == b
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


@given(sets, sets, sets)
def test_union_is_the_least_upper_bound(
    a: PermissionSet, b: PermissionSet, c: PermissionSet
) -> None:
    both = a.union(b)
    assert both == b.union(a)
    assert both.covers(a)
    assert both.covers(b)
    assert both.union(c) == a.union(b.union(c))
    if c.covers(a) and c.covers(b):
        assert c.covers(both)


@given(sets, sets, sets)
def test_cap_is_the_greatest_lower_bound(
    a: PermissionSet, b: PermissionSet, c: PermissionSet
) -> None:
    within = cap(a, b)
    assert within == cap(b, a)
    assert a.covers(within)
    assert b.covers(within)
    if a.covers(c) and b.covers(c):
        assert within.covers(c)


@given(sets, sets)
def test_difference_is_what_is_missing(a: PermissionSet, b: PermissionSet) -> None:
    missing = a.difference(b)
    assert a.covers(missing)
    assert b.union(missing).covers(a)
    assert missing.is_empty is b.covers(a)


@given(sets, sets, resources)
def test_a_resource_is_allowed_by_set_theory(
    a: PermissionSet, b: PermissionSet, wanted: tuple[Operation, str]
) -> None:
    assert a.union(b).allows(*wanted) == (a.allows(*wanted) or b.allows(*wanted))
    assert cap(a, b).allows(*wanted) == (a.allows(*wanted) and b.allows(*wanted))


@given(sets, resources)
def test_the_smallest_cover_is_enough_and_no_more(
    a: PermissionSet, wanted: tuple[Operation, str]
) -> None:
    need = smallest_cover(*wanted)
    assert need.allows(*wanted)
    assert a.union(need).allows(*wanted)
    if a.allows(*wanted):
        assert a.union(need) == a


@given(sets)
def test_the_empty_set_is_neutral(a: PermissionSet) -> None:
    nothing = PermissionSet()
    assert a.union(nothing) == a
    assert cap(a, nothing) == nothing
    assert a.difference(nothing) == a


@given(sets)
def test_each_entry_has_one_description(a: PermissionSet) -> None:
    entries = sum(len(a.entries(field)) for field in PermissionSet.model_fields)
    assert len(a.descriptions()) == max(entries, 1)


@given(st.text(max_size=40), st.sampled_from(OPERATIONS))
def test_any_text_is_an_entry_or_a_value_error(text: str, operation: Operation) -> None:
    try:
        need = smallest_cover(operation, text)
    except ValueError:
        assert not PermissionSet(hosts=("*",), read_paths=("/",)).allows(operation, text)
        return
    assert PermissionSet.model_validate(need.model_dump()) == need
    assert ".." not in "/".join(need.read_paths + need.write_paths).split("/")


@given(st.text(alphabet="ab/.$SCRATCH\0 ", max_size=20))
def test_bound_paths_stay_below_the_folder(text: str) -> None:
    try:
        a = PermissionSet(write_paths=(f"$SCRATCH/{text}",))
    except ValueError:
        return
    assert all(path.startswith("/run/one") for path in a.bound("/run/one").write_paths)


def test_bound_needs_an_absolute_folder() -> None:
    with pytest.raises(ValueError):
        PermissionSet().bound("relative")
