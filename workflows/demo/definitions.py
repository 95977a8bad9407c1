"""The workflows of the demo."""

from __future__ import annotations

from typing import Any

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

_PAGE = {"$from": "inputs", "select": "page"}

_COUNT = """\
# Nothing is asked for here, so nobody is asked.
words = text.split()
{"words": len(words), "longest": max(words, key=len)}
"""

_PYTHON = """\
# It starts with no permission at all: each new need stops here and waits for a person.
answer = fetch(page)
report = "status " + str(answer["status"]) + ": " + answer["text"]
print("the page answered")

# The working folder is new for each run; writing there is a permission of its own.
open("report.txt", "w").write(report)
{"status": answer["status"], "report": report}
"""

_TYPESCRIPT = """\
// The same in TypeScript: fetch and the file system are denied until somebody grants them.
type Report = { status: number; text: string };

async function ask(address: string): Promise<Report> {
  const answer = await fetch(address);
  return { status: answer.status, text: await answer.text() };
}

const report = await ask(page);
await Deno.writeTextFile("report.json", JSON.stringify(report));
return report;
"""


def _code(name: str, title: str, language: str, code: str, **inputs: Any) -> dict[str, Any]:
    return {
        "id": name,
        "title": title,
        "type": "code_execution",
        "language": language,
        "code": code,
        "inputs": inputs,
        "permission_set": "minimal",
        "timeout_seconds": 30,
    }


SANDBOX_TOUR: dict[str, Any] = {
    "name": "sandbox-tour",
    "title": "Sandbox tour",
    "description": (
        "Python and TypeScript that run with no permission and then need the network and a file: "
        "each need stops the run, names exactly what is asked for, and waits for a person."
    ),
    "inputs_schema": {
        "type": "object",
        "required": ["page"],
        "properties": {
            "page": {
                "type": "string",
                "title": "Page",
                "description": "An address that answers; this installation's own by default.",
            },
            "text": {"type": "string", "default": "code runs with the least permission"},
        },
        "additionalProperties": False,
    },
    "policy": {"four_eyes": False, "permission_ceiling": "mcp-standard"},
    "plan": {
        "tasks": [
            _code(
                "count",
                "Count words",
                "python",
                _COUNT,
                text={"$from": "inputs", "select": "text || 'no words were given'"},
            ),
            _code("ask_python", "Ask in Python", "python", _PYTHON, page=_PAGE),
            _code("ask_typescript", "Ask in TypeScript", "typescript", _TYPESCRIPT, page=_PAGE),
            {
                "id": "compare",
                "title": "Put the answers side by side",
                "type": "tool",
                "tool": "builtin.echo",
                "arguments": {
                    "value": {
                        "python": {"$from": "ask_python", "select": "status"},
                        "typescript": {"$from": "ask_typescript", "select": "status"},
                    }
                },
            },
        ]
    },
}


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

WORKFLOWS = (RELEASE_NOTES, REPOSITORY_CHECK, SANDBOX_TOUR, WORK_AHEAD)
