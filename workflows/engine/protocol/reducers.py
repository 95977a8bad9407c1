"""Reducers that combine the values of several layers.

Messages, tasks and decisions are appended; contexts are merged, and the later value wins.  All four
are associative, with the empty value as identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def _append(old: Sequence[T], new: Sequence[T]) -> tuple[T, ...]:
    return (*old, *new)


add_messages = add_tasks = add_decisions = _append


def merge_context(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return `old` updated with the keys of `new`.

    Nested objects are replaced, not merged: merging them would not be associative if a key is an
    object in one value and a scalar in another.
    """
    return {**old, **new}
