"""Ceilings: covered resources, and single exact resources of a covered kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.engine.policy.permissions import NAMED, PermissionSet, admits, named

HOST = PermissionSet(hosts=("127.0.0.1:8000",))
PUBLIC = PermissionSet(hosts=("api.example.org:443",))
PATH = PermissionSet(read_paths=("/srv/data",))
ENV = PermissionSet(env_names=("GREETING",))
RUN = PermissionSet(run=("git",))


@pytest.mark.parametrize(
    ("ceiling", "allowed"),
    [
        ("minimal", ()),
        ("readonly", (PATH,)),
        ("filesystem", (PATH,)),
        ("network-api", (HOST, PUBLIC)),
        ("mcp-standard", (HOST, PUBLIC, PATH, ENV)),
        ("trusted", (HOST, PUBLIC, PATH, ENV, RUN)),
    ],
)
def test_kinds_of_resources_are_covered(ceiling: str, allowed: tuple[PermissionSet, ...]) -> None:
    found = [need for need in (HOST, PUBLIC, PATH, ENV, RUN) if admits(named(ceiling), need)]
    assert found == list(allowed)


@pytest.mark.parametrize(
    "wide",
    [
        PermissionSet(hosts=("*",)),
        PermissionSet(hosts=("*:80",)),
        PermissionSet(hosts=("*.example.org:443", "example.org")),
        PermissionSet(hosts=("example.org",)),
        PermissionSet(read_paths=("/",)),
        PermissionSet(write_paths=("/",)),
        PermissionSet(run=("*",)),
    ],
)
def test_inexact_resources_have_to_be_covered(wide: PermissionSet) -> None:
    assert not admits(named("mcp-standard"), wide)
    assert admits(wide, wide)


@given(st.sampled_from(sorted(NAMED)), st.sampled_from(sorted(NAMED)))
def test_covered_resources_are_admitted(ceiling: str, need: str) -> None:
    if NAMED[ceiling].covers(NAMED[need]):
        assert admits(NAMED[ceiling], NAMED[need])


@given(st.sampled_from(sorted(NAMED)))
def test_the_empty_set_is_always_admitted(ceiling: str) -> None:
    assert admits(NAMED[ceiling], PermissionSet())
