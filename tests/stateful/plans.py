"""A small grammar of plans: every kind of end a task can come to, in every place of a DAG."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

INPUTS = {"yes": True, "no": False}
KINDS = ("value", "value", "look", "look", "effect", "flaky", "fail", "ask")


@st.composite
def tasks(
    draw: st.DrawFn,
    name: str,
    before: list[str],
    *,
    server: str = "statekit",
    kinds: tuple[str, ...] = KINDS,
) -> dict[str, Any]:
    """One task called `name` that may wait for the tasks in `before`."""
    kind = draw(st.sampled_from(kinds))
    needs = draw(st.lists(st.sampled_from(before), max_size=2, unique=True)) if before else []
    arguments: dict[str, Any] = {"value": [name, *({"$from": need} for need in needs)]}
    task: dict[str, Any] = {
        "id": name,
        "type": "tool",
        "tool": f"{server}.{kind}",
        "arguments": arguments,
    }
    if kind in ("flaky", "late"):
        attempts = draw(st.integers(1, 3))
        task["retry"] = {"max_attempts": attempts, "backoff_seconds": 0}
    if kind == "flaky":
        arguments["failures"] = draw(st.integers(0, 3))
    conditions = ["inputs.yes", "inputs.no", *needs]
    if draw(st.integers(0, 5)) == 0:
        task["when"] = draw(st.sampled_from(conditions))
    if draw(st.integers(0, 2)) == 0:
        task["human_review"] = draw(reviews())
    return task


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    """A task's human_review."""
    review: dict[str, Any] = {
        "trigger_phase": draw(st.sampled_from(["BEFORE_EXECUTION", "AFTER_EXECUTION"])),
        "on_reject": draw(st.sampled_from(["skip", "fail", "abort"])),
        "on_timeout": draw(st.sampled_from(["reject", "approve", "keep_waiting"])),
        "quorum": draw(st.sampled_from([1, 1, 2])),
    }
    if draw(st.booleans()):
        review["timeout_seconds"] = 600
    more = [{}, {}, {"always": True}, {"skip_when": "`true`"}, {"skip_when": "`false`"}]
    review.update(draw(st.sampled_from(more)))
    return review


@st.composite
def plans(
    draw: st.DrawFn,
    *,
    server: str = "statekit",
    kinds: tuple[str, ...] = KINDS,
    max_size: int = 5,
) -> dict[str, Any]:
    """A plan of 1 to `max_size` tasks called t0, t1, ..."""
    found: list[dict[str, Any]] = []
    for number in range(draw(st.sampled_from([*range(1, max_size + 1), max_size, max_size]))):
        before = [each["id"] for each in found]
        found.append(draw(tasks(f"t{number}", before, server=server, kinds=kinds)))
    return {"tasks": found}


def policies() -> st.SearchStrategy[dict[str, Any]]:
    """A policy: mostly none, else one of those that ask before or after a layer.

    Half of them let work be done ahead, which must make no difference.
    """
    calm = {"rules": [{"when": "layer == `0`", "decision": "continue"}]}
    asking = st.sampled_from(
        [
            {},
            {},
            {},
            {"hil": {"enabled": True}},
            {"hil": {"enabled": True, "approval_required": "critical_only"}},
            {"per_layer_validation": True},
            {"ail": {"enabled": True, "agent": "external"}},
            {"ail": {"enabled": True, "agent": "rules", "settings": calm}},
            {"ail": {"enabled": True, "agent": "external", "decision_points": "on_error"}},
            {"ail": {"enabled": True, "agent": "external", "decision_points": "manual"}},
            {"per_layer_validation": True, "hil": {"enabled": True, "on_timeout": "approve"}},
        ]
    )
    ahead = st.sampled_from([{}, {"speculation": {"enabled": True}}])
    changes = st.sampled_from(
        [
            {},
            {},
            {"replan_review": True},
            {"replan_review": {"enabled": True, "quorum": 2}},
            {"replan_review": {"enabled": True, "timeout_seconds": 600, "on_timeout": "approve"}},
        ]
    )
    return st.builds(
        lambda *parts: {k: v for part in parts for k, v in part.items()}, asking, ahead, changes
    )
