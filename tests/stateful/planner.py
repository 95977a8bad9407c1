"""The planner of the state machine."""

from __future__ import annotations

from typing import Any

from workflows.engine.plans.dag import Plan, ToolTask
from workflows.engine.protocol.ports import NewPlan, TaskFailed

IMPOSSIBLE = "impossible"


class AddsATask:
    """A planner that always has one idea, except for the impossible."""

    def replan(self, *, plan: Plan, requirement: str, **facts: Any) -> NewPlan:
        if requirement == IMPOSSIBLE:
            raise TaskFailed("there is no such plan")
        more = ToolTask(
            id=requirement,
            type="tool",
            tool="statekit.value",
            arguments={"value": requirement},
            permission_set="readonly",
        )
        return NewPlan(Plan(tasks=(*plan.tasks, more)))
