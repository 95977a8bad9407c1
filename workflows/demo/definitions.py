"""The demo's workflows, as plans that anybody could have written."""

from __future__ import annotations

from typing import Any

from .sandbox_tour import SANDBOX_TOUR
from .work_ahead import WORK_AHEAD

_REPO = {"$from": "inputs", "select": "repo"}

RELEASE_NOTES: dict[str, Any] = {
    "name": "release-notes",
    "title": "Release notes",
    "description": (
        "Reads the log and the diff of a git repository, drafts release notes, waits for a person "
        "to read and edit the draft, and once more before the file is written."
    ),
    "inputs_schema": {
        "type": "object",
        "required": ["repo", "since", "count"],
        "properties": {
            "repo": {"type": "string", "title": "Repository", "description": "A local path."},
            "since": {"type": "string", "description": "What the diff is taken against."},
            "count": {"type": "integer", "minimum": 1, "maximum": 200, "default": 20},
            "title": {"type": "string", "maxLength": 200, "default": "Release notes"},
            "path": {"type": "string", "default": "NOTES.md"},
        },
        "additionalProperties": False,
    },
    # The demo lets people decide on what they started themselves; a workflow does not by default.
    "policy": {"four_eyes": False},
    "plan": {
        "tasks": [
            {
                "id": "log",
                "title": "Read the log",
                "type": "tool",
                "tool": "git.git_log",
                "arguments": {
                    "repo_path": _REPO,
                    "max_count": {"$from": "inputs", "select": "count"},
                },
            },
            {
                "id": "diff",
                "title": "Read the diff",
                "type": "tool",
                "tool": "git.git_diff",
                "arguments": {
                    "repo_path": _REPO,
                    "target": {"$from": "inputs", "select": "since"},
                    "context_lines": 0,
                },
            },
            {
                "id": "draft",
                "title": "Draft the notes",
                "type": "tool",
                "tool": "demo.draft_release_notes",
                "arguments": {
                    "log": {"$from": "log"},
                    "diff": {"$from": "diff"},
                    "title": {"$from": "inputs", "select": "title"},
                    "feedback": {"$from": "context", "select": "feedback"},
                },
                "human_review": {
                    "trigger_phase": "AFTER_EXECUTION",
                    "groups": ["reviewer"],
                    "on_timeout": "keep_waiting",
                    "on_reject": "abort",
                    "instructions": "Is the tone right? Edit the Markdown as you like, or request "
                    "changes: it understands “shorter”, “no files” and “no contributors”.",
                },
            },
            {
                "id": "write",
                "title": "Write the file",
                "type": "tool",
                "tool": "builtin.write_file",
                "arguments": {
                    "path": {"$from": "inputs", "select": "path"},
                    "content": {"$from": "draft", "select": "markdown"},
                },
                "human_review": {
                    "trigger_phase": "BEFORE_EXECUTION",
                    "groups": ["reviewer"],
                    "timeout_seconds": 86_400,
                    "on_timeout": "reject",
                    "on_reject": "fail",
                    "instructions": "Check the path and the text before the file is written.",
                },
            },
        ]
    },
}


def _pause(name: str, seconds: float) -> dict[str, Any]:
    return {
        "id": name,
        "title": f"Wait {seconds:g} s",
        "type": "tool",
        "tool": "builtin.wait",
        "arguments": {"seconds": seconds},
    }


def _git(name: str, title: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {
        "id": name,
        "title": title,
        "type": "tool",
        "tool": f"git.{tool}",
        "arguments": {"repo_path": _REPO, **arguments},
    }


REPOSITORY_CHECK: dict[str, Any] = {
    "name": "repository-check",
    "title": "Repository check",
    "description": (
        "A wide first layer that looks at a repository from several sides, then two decisions at "
        "one boundary: the report's text, and the file that is about to be written."
    ),
    "inputs_schema": {
        "type": "object",
        "required": ["repo"],
        "properties": {
            "repo": {"type": "string", "title": "Repository", "description": "A local path."}
        },
        "additionalProperties": False,
    },
    "policy": {"four_eyes": False},
    "plan": {
        "tasks": [
            _git("status", "Look at the status", "git_status"),
            _git("branches", "List the branches", "git_branch", branch_type="local"),
            _git("recent", "Read the last commits", "git_log", max_count=5),
            _git("unstaged", "Read unstaged changes", "git_diff_unstaged"),
            _git("staged", "Read staged changes", "git_diff_staged"),
            _pause("settle1", 1.0),
            _pause("settle2", 1.5),
            _pause("settle3", 2.0),
            {
                "id": "report",
                "title": "Put the report together",
                "type": "tool",
                "tool": "builtin.echo",
                "arguments": {
                    "value": {
                        "status": {"$from": "status"},
                        "branches": {"$from": "branches"},
                        "recent": {"$from": "recent"},
                    }
                },
                "depends_on": ["settle1", "settle2", "settle3", "unstaged", "staged"],
                "human_review": {
                    "trigger_phase": "AFTER_EXECUTION",
                    "on_timeout": "keep_waiting",
                    "on_reject": "skip",
                    "instructions": "Does the report say what you would say?",
                },
            },
            {
                "id": "write",
                "title": "Write the status file",
                "type": "tool",
                "tool": "builtin.write_file",
                "arguments": {"path": "STATUS.txt", "content": {"$from": "status"}},
                "human_review": {
                    "trigger_phase": "BEFORE_EXECUTION",
                    "on_timeout": "keep_waiting",
                    "on_reject": "fail",
                },
            },
            {
                "id": "done",
                "title": "Say what was done",
                "type": "tool",
                "tool": "builtin.echo",
                "arguments": {"value": {"file": {"$from": "write"}, "report": {"$from": "report"}}},
            },
        ]
    },
}

WORKFLOWS = (RELEASE_NOTES, REPOSITORY_CHECK, SANDBOX_TOUR, WORK_AHEAD)
