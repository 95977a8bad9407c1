"""What a query asks for, and what a tool does."""

import pytest

from graphrag import actions
from graphrag.actions import Effect


@pytest.mark.parametrize(
    ("query", "effect"),
    [
        ("which branches are there", Effect.READ),
        ("show the log", Effect.READ),
        ("Zeige mir die Protokolle", Effect.READ),
        ("create a branch", Effect.CHANGE),
        ("Erstelle einen Branch", Effect.CHANGE),
        ("Füge dem Dokument eine Überschrift hinzu", Effect.CHANGE),
        ("Ajoute un commentaire au ticket", Effect.CHANGE),
        ("envoyer le rapport à Léa", Effect.CHANGE),
        ("open the file", Effect.READ),
        ("open a pull request", None),
        ("open a new ticket and show it", Effect.READ),
        ("email it to bob", None),
        ("give me the last 15 commits", Effect.READ),
        ("gib mir die letzten Commits", Effect.READ),
        ("the changes of last week: which files", Effect.READ),
        ("give Bob access", None),
        ("please remove the note", Effect.DESTROY),
        ("find the old drafts and delete them", Effect.DESTROY),
        ("Lösche den Termin", Effect.DESTROY),
        ("supprimer la page", Effect.DESTROY),
        ("", None),
    ],
)
def test_the_verbs_of_a_query_say_what_it_asks_for(query: str, effect: Effect | None) -> None:
    assert actions.asked(query) is effect


@pytest.mark.parametrize(
    ("name", "read_only", "destructive", "effect"),
    [
        ("list_files", False, None, Effect.READ),
        ("delete_email", False, None, Effect.DESTROY),
        ("API-delete-a-block", False, None, Effect.DESTROY),
        ("delete_draft", True, None, Effect.READ),
        ("write_file", False, True, Effect.CHANGE),
        ("search_and_replace", False, True, Effect.CHANGE),
        ("nuke", False, True, Effect.DESTROY),
        ("nuke", False, None, Effect.CHANGE),
    ],
)
def test_marks_and_the_name_say_what_a_tool_does(
    name: str, read_only: bool, destructive: bool | None, effect: Effect
) -> None:
    assert actions.of_tool(name, read_only=read_only, destructive=destructive) is effect


@pytest.mark.parametrize(
    ("name", "kind", "read_only", "destructive", "expected"),
    [
        ("write_file", "mcp", False, None, True),
        ("write_file", "mcp", False, False, False),
        ("write_file", "mcp", True, None, False),
        ("write_file", "mcp", True, True, True),
        ("write_file", "python", False, None, False),
        ("write_file", "python", False, True, True),
        ("delete_file", "python", False, None, True),
        ("delete_file", "python", True, None, False),
        ("delete_file", "mcp", False, False, False),
    ],
)
def test_an_unmarked_tool_of_a_server_can_destroy_data(
    name: str, kind: str, read_only: bool, destructive: bool | None, expected: bool
) -> None:
    found = actions.can_destroy(name, kind=kind, read_only=read_only, destructive=destructive)
    assert found is expected
