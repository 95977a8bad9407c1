"""A demo workflow for permissions: code that may do nothing, and asks for what it needs."""

from __future__ import annotations

from typing import Any

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
