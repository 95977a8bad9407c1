"""The policy of each tool of a gate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from workflows.engine.plans.dag import ToolTask
from workflows.engine.plans.risk import is_critical
from workflows.models import Gate, GatePolicy
from workflows.planning.planner import known_tools

_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.:/@\-]")


@dataclass(frozen=True, slots=True)
class GateToolInfo:
    """A tool as the catalogue knows it; `name` is `server.tool`."""

    name: str
    policy: GatePolicy
    is_default: bool
    title: str = ""
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    destructive: bool | None = None

    @property
    def action(self) -> str:
        """The name of the approval's action."""
        return _NOT_IN_NAMES.sub("_", self.name)[:199]


def tool_infos(gate: Gate, names: Iterable[str]) -> dict[str, GateToolInfo]:
    """Return these tools with their policy on the gate."""
    wanted = list(names)
    chosen = dict(gate.tools.filter(tool__in=wanted).values_list("tool", "policy"))
    records = known_tools(wanted)
    infos = {}
    for name in wanted:
        record = records.get(name)
        policy = _default_policy(record)
        is_disabled = record is not None and not record.enabled
        if name in chosen and not is_disabled:
            policy = GatePolicy(chosen[name])
        infos[name] = GateToolInfo(
            name=name,
            policy=policy,
            is_default=name not in chosen,
            title=record.title if record else "",
            description=record.description if record else "",
            input_schema=record.input_schema if record else None,
            destructive=record.destructive if record else None,
        )
    return infos


def _default_policy(record: Any) -> GatePolicy:
    """Allow what only reads by the catalogue's marks and its permission set; hold the rest.

    The catalogue's marks are the server's annotations unless a person has set them.
    """
    if record is None:
        return GatePolicy.HOLD
    if not record.enabled:
        return GatePolicy.DENY
    task = ToolTask(id="tool", type="tool", tool=record.name, permission_set=record.permission_set)
    reads = record.read_only and not record.can_destroy and not is_critical(task)
    return GatePolicy.ALLOW if reads else GatePolicy.HOLD
