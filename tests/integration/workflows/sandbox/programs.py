"""The data of a hostile program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from workflows.engine.policy.permissions import PermissionSet

Ending = Literal["escalation", "failure", "value"]

SECONDS = 1.0
"""The limit of a program that would not end by itself."""


@dataclass(frozen=True)
class Hostile:
    """A program, how its run must end, and a part of what the ending says.

    In `code`, `{secret}`, `{port}` and `{scratch}` are filled in. `told` is looked for in the
    resource of an escalation, the message of a failure, the value otherwise.
    """

    name: str
    code: str
    ending: Ending
    told: str = ""
    language: str = "typescript"
    permissions: PermissionSet = field(default_factory=PermissionSet)
    seconds: float = 20.0
    options: dict[str, Any] = field(default_factory=dict)
