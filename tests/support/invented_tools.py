"""A catalogue of invented tools, as large as the ones that people connect, and intents for it."""

from __future__ import annotations

from typing import Any

_SUBJECTS = """
invoice customer shipment lesson patient recipe flight hotel contract permit parcel bridge song
film match player loan claim plant animal river road train station
""".split()  # noqa: SIM905

#: Action, its description, what else it takes, whether it only reads, how a person asks for it.
_ACTIONS: tuple[tuple[str, str, dict[str, str], bool, str], ...] = (
    ("list", "Return all {0}s, newest first.", {"limit": "integer"}, True, "show every {0}"),
    ("get", "Return one {0} with all its fields.", {"id": "string"}, True, "open the {0} 12"),
    (
        "search",
        "Find {0}s whose text contains a phrase.",
        {"query": "string"},
        True,
        "find the {0} about snow",
    ),
    (
        "create",
        "Add a new {0}. The name must not be taken.",
        {"name": "string"},
        False,
        "make a new {0}",
    ),
    (
        "update",
        "Change the fields of a {0}. Fields that are left out stay.",
        {"id": "string", "fields": "object"},
        False,
        "change the name of the {0}",
    ),
    ("delete", "Remove a {0} for good.", {"id": "string"}, False, "remove the {0}"),
    (
        "export",
        "Write all {0}s into a CSV file.",
        {"path": "string"},
        False,
        "export each {0} to a table",
    ),
    ("count", "Return how many {0}s there are.", {}, True, "how many {0}s are there"),
    (
        "assign",
        "Give a {0} to a person who takes care of it.",
        {"id": "string", "person": "string"},
        False,
        "give the {0} to Ada",
    ),
    (
        "comment_on",
        "Add a comment to a {0}. Markdown is accepted.",
        {"id": "string", "text": "string"},
        False,
        "leave a note on the {0}",
    ),
    (
        "archive",
        "Hide a {0} from lists; it can be restored.",
        {"id": "string"},
        False,
        "put the {0} away",
    ),
)


def invented_tools() -> list[dict[str, Any]]:
    """Return 264 tools as an MCP server lists them, in a fixed order."""
    return [
        {
            "name": f"{action}_{subject}",
            "description": description.format(subject),
            "inputSchema": {
                "type": "object",
                "properties": {name: {"type": type_} for name, type_ in takes.items()},
                "required": list(takes),
            },
            "annotations": {"readOnlyHint": reads},
        }
        for subject in _SUBJECTS
        for action, description, takes, reads, _ in _ACTIONS
    ]


def invented_intents() -> list[str]:
    """Return one intent for each tool, in the same order."""
    return [asked.format(subject) for subject in _SUBJECTS for *_, asked in _ACTIONS]
