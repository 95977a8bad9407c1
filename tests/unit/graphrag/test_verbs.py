"""Agreement of the verb of a step with the name of a tool."""

import pytest

from graphrag import tokenizer
from graphrag.planning import parameters, verbs


@pytest.mark.parametrize(
    ("verb", "name", "agreement"),
    [
        ("show", "get_page", 1),
        ("comment", "API-create-a-comment", 1),
        ("comment", "API-retrieve-a-comment", -1),
        ("create", "read_file", -1),
        ("list", "list_files", 1),
        ("delete", "append_note", -1),
        ("ponder", "get_page", 0),
    ],
)
def test_a_noun_of_the_name_is_no_action(verb: str, name: str, agreement: int) -> None:
    assert verbs.agreement(tokenizer.stem(verb), parameters.name_stems(name)) == agreement
