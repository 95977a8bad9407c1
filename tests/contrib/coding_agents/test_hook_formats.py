"""The codecs of hooks: an answer allows exactly what was approved."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reviews.contrib.coding_agents import hook_formats
from workflows.executions.validation import InvalidRequest

from .test_hook_script import CLAUDE, CODEX, EVENTS

ARGUMENTS = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3)
STATUSES = st.sampled_from(["approved", "pending", "rejected", "expired", "completed", "new one"])


def approval(status: str, arguments: Any, comment: str = "") -> dict[str, Any]:
    return {
        "status": status,
        "arguments": arguments,
        "comment": comment,
        "review_url": "http://host/review",
    }


@given(STATUSES, ARGUMENTS, ARGUMENTS)
def test_claude_code_runs_only_the_decided_input(status: str, asked: Any, decided: Any) -> None:
    event = {**EVENTS["claude-code"], "tool_input": asked}
    specific = hook_formats.answer(CLAUDE, event, approval(status, decided))["hookSpecificOutput"]
    assert specific["hookEventName"] == "PreToolUse"
    if status == "approved":
        assert specific["permissionDecision"] == "allow"
        assert specific["updatedInput"] == decided
    else:
        assert specific["permissionDecision"] == "deny"
        assert specific["permissionDecisionReason"]
        assert "updatedInput" not in specific


@given(STATUSES, ARGUMENTS, ARGUMENTS)
def test_codex_allows_only_the_input_it_asked_for(status: str, asked: Any, decided: Any) -> None:
    event = {**EVENTS["codex"], "tool_input": asked}
    specific = hook_formats.answer(CODEX, event, approval(status, decided))["hookSpecificOutput"]
    allowed = status == "approved" and asked == decided
    # Codex refuses unknown fields, and then asks on the terminal.
    assert set(specific) == {"hookEventName", "decision"}
    assert set(specific["decision"]) == ({"behavior"} if allowed else {"behavior", "message"})
    assert specific["decision"]["behavior"] == ("allow" if allowed else "deny")


@pytest.mark.parametrize("before", ["Push with", "x" * 170])
def test_a_title_never_repeats_a_secret(before: str) -> None:
    secret = "ghp_" + "a1B2" * 9
    description = {"command": "true", "description": f"{before} {secret}"}
    asked = hook_formats.request_of(CLAUDE, {**EVENTS["claude-code"], "tool_input": description})
    assert "ghp_" not in asked["action"]["title"]
    assert before in asked["action"]["title"]


def test_a_request_shows_the_call() -> None:
    assert hook_formats.request_of(CLAUDE, EVENTS["claude-code"]) == {
        "action": {
            "name": "claude-code.Bash",
            "title": "Bash: Remove the build",
            "arguments": {"command": "rm -r build", "description": "Remove the build"},
        },
        "editable": True,
        "context": "Working folder: `/src`",
        "requested_by": {"agent": "Claude Code", "session": "s"},
    }
    assert hook_formats.request_of(CODEX, EVENTS["codex"])["editable"] is False


@pytest.mark.parametrize(
    "changes",
    [
        {"hook_event_name": "PostToolUse"},
        {"hook_event_name": None},
        {"tool_name": ""},
        {"tool_name": 3},
        {"tool_input": None},
        {"tool_input": "ls"},
    ],
)
@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_another_event_is_refused(agent: hook_formats.Agent, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        hook_formats.request_of(agent, {**EVENTS[agent.name], **changes})


def test_a_call_has_one_key() -> None:
    assert hook_formats.key_of(CLAUDE, EVENTS["claude-code"]) == "hook:claude-code:s:toolu_1"
    assert hook_formats.key_of(CODEX, EVENTS["codex"]) == ""
