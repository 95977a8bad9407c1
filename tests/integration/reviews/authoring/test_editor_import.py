"""Imports in the plan editor: over an existing workflow, and under the rights of a save."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from reviews.authoring.workflow_files import exported, written
from tests.integration.reviews.authoring.test_editor import Editor, admin
from tests.integration.reviews.conftest import Start
from tests.support.catalogue import stock_catalogue
from workflows.executions.definitions import save_workflow
from workflows.models import Execution, Workflow

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db(transaction=True)

__all__ = ["admin"]

ECHO = {"id": "a", "type": "tool", "tool": "builtin.echo", "arguments": {"value": 1}}


@pytest.fixture
def workflow(admin: User) -> Workflow:
    fields = {"name": "w", "title": "W", "description": "one\ntwo", "plan": {"tasks": [ECHO]}}
    return save_workflow(actor=admin, fields=fields)


def file_of(workflow: Workflow, **changes: Any) -> str:
    return written({**exported(workflow), **changes}, "yaml")


def test_a_file_of_an_existing_name_is_a_version_or_a_new_workflow(
    workflow: Workflow, admin: User
) -> None:
    text = file_of(workflow, title="Better")
    editor = Editor(admin).press("import", import_text=text)
    assert json.loads(editor.draft)["title"] == ""
    assert "Import it as a version of “W”, or as a new workflow?" in editor.html
    assert "Better" in editor.html[editor.html.index('id="import-title"') :]
    assert "name: w" in editor.html
    seen = editor.html.partition('name="import_seen" value="')[2].partition('"')[0]
    choice = {"import_text": text, "import_workflow": str(workflow.pk), "import_seen": seen}
    version = Editor(admin).press("import_version", **choice)
    assert version.press("save").status == 204
    assert Workflow.objects.get().title == "Better"
    assert workflow.versions.count() == 2
    new = Editor(admin).press("import_new", **choice).press("save")
    assert new.status == 204
    assert set(Workflow.objects.values_list("name", flat=True)) == {"w", "w-2"}
    # The workflow has changed since the difference was shown.
    late = Editor(admin).press("import_version", **choice).press("save", title="Mine")
    assert late.status == 422
    assert Workflow.objects.get(name="w").title == "Better"


def test_a_file_of_another_name_may_replace_the_opened_workflow(
    workflow: Workflow, admin: User
) -> None:
    text = file_of(workflow, name="other", description="three")
    editor = Editor(admin, f"?workflow={workflow.pk}").press("import", import_text=text)
    assert "as a version of “W”" in editor.html
    editor.press("import_version", import_text=text, import_workflow=str(workflow.pk))
    draft = json.loads(editor.draft)
    assert (draft["name"], draft["description"]) == ("w", "three")


def test_a_wrong_file_stays_in_its_field(admin: User) -> None:
    editor = Editor(admin).press("import", import_text="plan:\n  tasks: *all\n")
    assert "plan.tasks: refers to *all; aliases are not supported" in editor.html
    assert "tasks: *all" in editor.html[editor.html.index('id="import-text"') :]
    inputs = editor.html[editor.html.index("editor-inputs") :]
    assert "<details >" in inputs[: inputs.index("Inputs as JSON")]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"plan": {"tasks": [{**ECHO, "permission_set": "trusted"}]}}, "permission"),
        ({"plan": {"tasks": [{**ECHO, "human_review": {"groups": ["nobody"]}}]}}, "no group"),
        ({"policy": {"review_rules": []}}, "published"),
        ({"policy": {"hil": {"enabled": False}}}, "looser"),
    ],
)
def test_an_import_has_the_rights_of_its_person(
    workflow: Workflow, operator: User, settings: Any, changes: dict[str, Any], told: str
) -> None:
    settings.HOLDPOINT = {
        **settings.HOLDPOINT,
        "start_ceilings": {"*": "readonly"},
        "policy_floor": {"hil": {"enabled": True, "approval_required": "always"}},
    }
    stock_catalogue()
    for group in operator.groups.all():
        group.permissions.clear()  # among them the permission to loosen a policy
    floor = {"hil": {"enabled": True, "approval_required": "always"}}
    text = file_of(workflow, **{"policy": floor, **changes})
    editor = Editor(operator).press("import", import_text=text)
    assert "or as a new workflow?" not in editor.html
    assert editor.press("start").status == 422
    assert told in editor.html
    assert Execution.objects.count() == 0
    assert editor.press("import_version", import_text=text, import_workflow="1").status == 404
    assert editor.press("save").status == 403


def test_the_page_changes_no_description(workflow: Workflow, admin: User) -> None:
    editor = Editor(admin, f"?workflow={workflow.pk}")
    editor.press("save", title="W2", description="one\r\ntwo")
    assert Workflow.objects.get().description == "one\ntwo"


def test_a_workflow_of_a_run_has_the_title_of_the_run(
    workflow: Workflow, admin: User, start: Start
) -> None:
    execution = start(ECHO)
    Execution.objects.filter(pk=execution.pk).update(title="W")
    assert json.loads(Editor(admin, f"?run={execution.pk}").draft)["title"] == "W (2)"


def test_copies_have_their_own_names(workflow: Workflow, admin: User) -> None:
    for _number in range(2):
        assert Editor(admin, f"?copy={workflow.pk}").press("save").status == 204
    found = Workflow.objects.exclude(pk=workflow.pk).order_by("pk").values_list("name", "title")
    assert list(found) == [("copy-of-w", "Copy of W"), ("copy-of-w-2", "Copy of W (2)")]
