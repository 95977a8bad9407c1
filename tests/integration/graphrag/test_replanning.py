"""Replanning a run for discovered data."""

import copy
from collections.abc import Callable
from typing import Any

import jmespath
import pytest

from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import plans, replanning
from tests.support.learning import learn

PLAN: dict[str, Any] = {
    "name": "discovery",
    "tasks": [
        {
            "id": "list_dir",
            "type": "tool",
            "tool": "files.list_directory",
            "arguments": {"path": {"$from": "inputs", "select": "path"}},
        },
        {
            "id": "read_json",
            "type": "tool",
            "tool": "files.read_file",
            "arguments": {"path": {"$from": "list_dir", "select": "files[0]"}},
            "human_review": {"enabled": True},
        },
        {
            "id": "json",
            "type": "tool",
            "tool": "files.parse_json",
            "arguments": {"text": {"$from": "read_json", "select": "content"}},
        },
    ],
}


def replan(requirement: str, **more: Any) -> replanning.ReplanResult:
    plan = copy.deepcopy(PLAN)
    found = replanning.replan(
        more.pop("plan", plan),
        more.pop("settled", ["list_dir"]),
        requirement,
        more.pop("context", None),
    )
    assert plan == PLAN  # what was given is not changed
    return found


def test_the_discovered_format_gets_its_tools_beside_the_others(
    files_catalogue: list[ToolRecord],
) -> None:
    found = replan("parse XML files")
    assert found.plan is not None
    assert found.added == ("read_file", "parse_xml")
    assert found.plan["tasks"][:3] == PLAN["tasks"]
    assert found.plan["name"] == "discovery"
    tasks = plans.tasks_of(found.plan)
    assert plans.layers(found.plan) == [
        ["list_dir"], ["read_json", "read_file"], ["json", "parse_xml"],
    ]  # fmt: skip
    select = tasks["read_file"]["arguments"]["path"]["select"]
    assert jmespath.search(select, {"path": "d", "files": ["d/a.json", "d/b.xml"]}) == "d/b.xml"
    assert tasks["parse_xml"]["arguments"] == {"text": {"$from": "read_file", "select": "content"}}


def test_tools_named_by_the_agent_come_first(files_catalogue: list[ToolRecord]) -> None:
    found = replan("read the files", context={"files": ["x.xml", "y.xml"]})
    assert found.plan is not None
    tasks = plans.tasks_of(found.plan)
    assert [tasks[name]["arguments"]["path"] for name in found.added] == [
        {"$from": "context", "select": "files[0]"},
        {"$from": "context", "select": "files[1]"},
    ]
    assert all(tasks[name]["depends_on"] == ["list_dir"] for name in found.added)


def test_new_tasks_depend_only_on_finished_ones(files_catalogue: list[ToolRecord]) -> None:
    found = replan("write text into a file", settled=["list_dir", "read_json"])
    assert found.plan is not None
    (new,) = (plans.tasks_of(found.plan)[name] for name in found.added)
    assert plans.dependencies(new) <= {"list_dir", "read_json"}
    assert "read_json" in plans.dependencies(new)


def test_without_a_match_a_warning_names_the_nearest_tools(
    files_catalogue: list[ToolRecord],
) -> None:
    found = replan("bake a chocolate cake")
    assert (found.plan, found.added) == (None, ())
    assert "No tool fits" in found.warnings[0]
    assert found.nearest
    assert replan("").warnings == ("Nothing was found for ''.",)


def test_an_empty_catalogue_is_a_warning(db: None) -> None:
    found = replan("parse XML files")
    assert found.plan is None
    assert "The catalogue has no enabled tool" in found.warnings[0]


@pytest.mark.parametrize(
    ("change", "settled", "why"),
    [
        ({"depends_on": ["json"]}, [], "wait for each other"),
        ({"depends_on": ["nowhere"]}, [], "depends on 'nowhere'"),
        ({}, ["ghost"], "'ghost' is settled but not in the plan"),
    ],
)
def test_a_plan_that_cannot_run_is_refused(
    files_catalogue: list[ToolRecord], change: dict[str, Any], settled: list[str], why: str
) -> None:
    plan = copy.deepcopy(PLAN)
    plan["tasks"][0].update(change)
    found = replan("parse XML files", plan=plan, settled=settled)
    assert found.plan is None
    assert why in found.warnings[0]


def test_the_same_call_is_not_added_twice(files_catalogue: list[ToolRecord]) -> None:
    first = replan("read the file", context={"path": "a.xml"})
    assert first.plan is not None
    again = replanning.replan(first.plan, ["list_dir"], "read the file", {"path": "a.xml"})
    assert again.plan is None
    assert "The plan has these tasks already." in again.warnings


def test_the_setting_limits_the_added_tasks(
    files_catalogue: list[ToolRecord], holdpoint: Callable[..., None]
) -> None:
    holdpoint(replan_max_tasks=2)
    found = replan("read the files", context={"files": list("abcdef")})
    assert len(found.added) == 2


def test_the_reasons_include_learned_edges(files_catalogue: list[ToolRecord]) -> None:
    for key in range(3):
        learn(execution_key=str(key), layers=[["files.list_directory"], ["files.parse_xml"]])
    found = replan("parse the xml document", context={"text": "<a/>"})
    assert found.added == ("parse_xml",)
    expected = "often follows files.list_directory 3\N{MULTIPLICATION SIGN}"
    assert expected in found.reasons[0].reasons
