"""Files of workflows: an import gives what was exported, and a wrong file says what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from reviews.authoring.editor_draft import EditorDraft, posted, read
from reviews.authoring.workflow_files import FIELDS, NoWorkflow, written
from reviews.authoring.workflow_files import read as read_file
from workflows.engine.values.bounded_json import DEFAULT

TEXTS = st.sampled_from(
    [
        "no", "on", "1", "1_000", "0o7", "010", "1e400", "2026-01-31", "~", "a: b", "é\U0001f600",
        "x\ny\n",
    ]
) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)
WORKFLOWS = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[-a-zA-Z0-9_]{1,100}", fullmatch=True),
        "title": TEXTS.filter(lambda text: not {"\n", "\r"} & {*text}),
        "description": TEXTS,
        "plan": st.builds(
            lambda more, tasks: {**more, "tasks": tasks}, OBJECTS, st.lists(OBJECTS, max_size=3)
        ),
        "policy": OBJECTS,
        "inputs_schema": OBJECTS,
        "default_inputs": OBJECTS,
    }
)


@given(WORKFLOWS, st.sampled_from(["json", "yaml"]))
def test_an_import_gives_what_was_exported(workflow: dict[str, Any], kind: str) -> None:
    workflow = {name: workflow[name] for name in FIELDS}
    found = read_file(written(workflow, kind))
    assert json.dumps(found) == json.dumps(workflow)
    # The page keeps the draft as text, and sends it with each request.
    draft = read(replace(EditorDraft(), **found).as_json())
    assert json.dumps({name: getattr(draft, name) for name in FIELDS}) == json.dumps(workflow)


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_large_and_deep_workflows_come_back(kind: str) -> None:
    deep: Any = "x"
    for _level in range(DEFAULT.depth - 3):
        deep = [deep]
    plan = {"tasks": [{"id": "a", "value": deep, "text": "é\t" * 100_000}]}
    workflow = {
        "name": "w",
        "title": " spaces stay ",
        "description": "one\ntwo\n" * 2_000,
        "plan": plan,
        "policy": {"many": list(range(DEFAULT.nodes - 5))},
        "inputs_schema": {"many": list(range(DEFAULT.nodes - 5))},
        "default_inputs": {},
    }
    found = read_file(written(workflow, kind))
    assert found == workflow
    data = QueryDict(mutable=True)
    draft = replace(EditorDraft(), **found)
    data.update({"draft": draft.as_json(), "title": " spaces stay ", "selected": "-1"})
    data["description"] = workflow["description"].replace("\n", "\r\n")
    back = posted(data)
    assert {name: getattr(back, name) for name in FIELDS} == workflow


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "must be an object with a plan"),
        ("[1]", "must be an object with a plan"),
        ("\ufeff{", "is not valid JSON"),
        ("plan: [", "is not valid YAML"),
        ("plan: {tasks: [1]}", "without a list of tasks"),
        ("plan: {tasks: []}\nenabled: true", "unknown field enabled"),
        ("plan: {tasks: []}\ncreated_by: 1", "unknown field created_by"),
        ("plan: {tasks: []}\ntitle: 3", "wrong value for title"),
        ("plan: {tasks: []}\npolicy: []", "wrong value for policy"),
        (f"plan: {{tasks: []}}\ntitle: {'x' * 201}", "title is longer than 200 characters"),
        ('plan: {tasks: []}\ntitle: "a\\nb"', "title has a line break"),
        ("plan: {tasks: []}\nname: a b", "name has other characters"),
        ("plan: {tasks: []}\nplan: {tasks: []}", "has the key 'plan' twice (line 2)"),
        ('{"plan": {"tasks": []}, "plan": {"tasks": []}}', "plan: is given twice"),
        ('{"plan": {"tasks": [{"n": NaN}]}}', "plan.tasks[0].n: is not a finite number"),
        ("x" * (1024 * 1024 + 1), "is larger than 1024 KiB"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(text: str, error: str) -> None:
    with pytest.raises(NoWorkflow) as refused:
        read_file(text)
    assert error in str(refused.value)
