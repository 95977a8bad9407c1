"""Plain words about a hold: what will happen, and what each answer does."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from workflows.summaries import counted, one_line, short_name

__all__ = ["effect_of_approve", "effect_of_reject", "effect_of_timeout", "headline", "one_line"]

_OTHER_HOLDS: Final = {
    "layer_approval": "the next layer{where} waits for approval",
    "layer_validation": "a finished layer{where} waits for a check",
    "escalation": "{task} asks for more permission{where}",
    "agent_decision": "an agent has to decide{where}",
    "replan_review": "the plan{where} is to be changed",
}


def headline(phase: str, tool: str, task_id: str, workflow_title: str = "") -> str:
    """One sentence for a hold: "write_file will run in “Release notes”".

    `phase` is BEFORE_EXECUTION, AFTER_EXECUTION, or the reason of a hold without a phase. Without
    `workflow_title` the sentence is the heading of the decision itself.
    """
    where = f" in “{workflow_title}”" if workflow_title else ""
    if phase == "BEFORE_EXECUTION":
        return f"{short_name(tool) or task_id} will run{where or ' with these arguments'}"
    if phase == "AFTER_EXECUTION":
        return f"{task_id} finished{where or ': approve its output'}"
    other = _OTHER_HOLDS.get(phase.lower(), "{task} waits for a decision{where}")
    sentence = other.format(task=task_id or "a task", where=where)
    return sentence[:1].upper() + sentence[1:] if not task_id else sentence


def effect_of_approve(phase: str, tool: str, task_id: str, change_count: int = 0) -> str:
    """What approving does, said before the button is pressed."""
    edits = f" with your {counted(change_count, 'change')}" if change_count else ""
    if phase == "BEFORE_EXECUTION":
        return f"Approving runs {short_name(tool) or task_id}{edits or ' as shown'}."
    if phase == "AFTER_EXECUTION":
        return f"Approving passes the output of {task_id} on{edits or ' as shown'}."
    if phase.lower() == "escalation":
        return f"Approving runs {task_id} again with the permission it asked for."
    if phase.lower() == "replan_review":
        return "Approving changes the plan as shown; what has begun stays as it is."
    return "Approving lets the run go on."


def effect_of_timeout(
    on_timeout: str, deadline: datetime | None, now: datetime | None = None
) -> str:
    """What happens if nobody decides; `deadline` in the reader's time zone."""
    if deadline is None or on_timeout == "keep_waiting":
        return "It waits until somebody decides."
    effect = {
        "approve": "it will be approved as it is",
        "reject": "it will be rejected",
        "abort": "the run will be aborted",
    }.get(on_timeout, "it will be rejected")
    same_day = now is not None and now.astimezone(deadline.tzinfo).date() == deadline.date()
    when = f"{deadline:%H:%M}" if same_day else f"{deadline:%H:%M on %d %B %Y}".replace(" 0", " ")
    return f"If nobody decides by {when}, {effect}."


def effect_of_reject(on_reject: str, skipped_count: int = 0) -> str:
    """What rejecting does; `skipped_count` tasks depend on this one."""
    if on_reject == "abort":
        return "Rejecting stops the run; nothing after this point is done."
    if on_reject == "keep_plan":
        return "Rejecting keeps the plan as it is; the run goes on with it."
    needing = (
        f"{counted(skipped_count, 'task')} that {'needs' if skipped_count == 1 else 'need'} it"
    )
    needs = f" and skips {needing}" if skipped_count else ""
    if on_reject == "fail":
        return f"Rejecting fails this task{needs}; independent work goes on."
    if skipped_count:
        return f"Rejecting skips this task and {needing}; the rest goes on."
    return "Rejecting skips this task; the rest goes on."
