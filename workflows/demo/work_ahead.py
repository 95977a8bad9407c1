"""A demo workflow whose readers are computed while a person decides what to read."""

from __future__ import annotations

from typing import Any

_REPO = {"$from": "inputs", "select": "repo"}


def _review(instructions: str) -> dict[str, Any]:
    return {
        "trigger_phase": "AFTER_EXECUTION",
        "groups": ["reviewer"],
        "on_timeout": "keep_waiting",
        "on_reject": "abort",
        "instructions": instructions,
    }


WORK_AHEAD: dict[str, Any] = {
    "name": "work-ahead",
    "title": "Commit digest",
    "description": (
        "Asks which commit to read. While the question is open, the answer as it stands is already "
        "followed up: approve unchanged and the digest is there at once; change one field and "
        "only what reads it is done again."
    ),
    "inputs_schema": {
        "type": "object",
        "required": ["repo"],
        "properties": {
            "repo": {"type": "string", "title": "Repository", "description": "A local path."}
        },
        "additionalProperties": False,
    },
    "policy": {"four_eyes": False, "speculation": {"enabled": True}},
    "plan": {
        "tasks": [
            {
                "id": "choose",
                "title": "Choose what to read",
                "type": "tool",
                "tool": "builtin.echo",
                "arguments": {
                    "value": {"revision": "HEAD", "commits": 20, "title": "Commit digest"}
                },
                "human_review": _review(
                    "Approve as it is, and the next steps are done at once. Change the number of "
                    "commits, and the commit that was read stays read."
                ),
            },
            {
                "id": "commit",
                "title": "Read the commit",
                "type": "tool",
                "tool": "git.git_show",
                "arguments": {
                    "repo_path": _REPO,
                    "revision": {"$from": "choose", "select": "revision"},
                },
            },
            {
                "id": "log",
                "title": "Read the log",
                "type": "tool",
                "tool": "git.git_log",
                "arguments": {
                    "repo_path": _REPO,
                    "max_count": {"$from": "choose", "select": "commits"},
                },
            },
            {
                "id": "study",
                "title": "Take three seconds over the commit",
                "type": "tool",
                "tool": "builtin.wait",
                "arguments": {"seconds": 3.0},
                "depends_on": ["commit"],
            },
            {
                "id": "digest",
                "title": "Write the digest",
                "type": "tool",
                "tool": "demo.draft_release_notes",
                "arguments": {
                    "log": {"$from": "log"},
                    "title": {"$from": "choose", "select": "title"},
                },
                "depends_on": ["study"],
                "human_review": _review("Computed ahead or not: it still waits for you."),
            },
        ]
    },
}
