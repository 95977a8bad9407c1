"""How what several layers say is put together.

Messages, tasks and decisions are append-only; context merges, the later one winning.  All four
are associative, with the empty value as identity: folding in any grouping gives the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def _append(old: Sequence[T], new: Sequence[T]) -> tuple[T, ...]:
    return (*old, *new)


add_messages = add_tasks = add_decisions = _append


def merge_context(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of `new` laid over `old`, whole values at a time.

    One level deep on purpose: merging nested objects would not be associative where a key is an
    object in one value and a scalar in another.
    """
    return {**old, **new}
