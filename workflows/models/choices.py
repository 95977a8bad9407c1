"""Model field choices made of the engine's enums."""

from __future__ import annotations

from enum import StrEnum


def choices_of(enum: type[StrEnum]) -> list[tuple[str, str]]:
    """Return `choices` that use each member's value as its label."""
    return [(member.value, member.value) for member in enum]
