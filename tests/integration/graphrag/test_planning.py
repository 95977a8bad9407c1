"""Plans from intents, over the small catalogue and over the large one."""

from collections.abc import Callable, Collection
from typing import Any

import pytest

from graphrag.catalogue import ingest
from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import plans, replanning
from graphrag.planning import services as planning_services
from graphrag.retrieval.search import Filters
from tests.integration.graphrag.conftest import make_tool


def tools_of(suggestion: planning_services.Suggestion) -> list[str]:
    assert suggestion.plan is not None, suggestion
    return [plans.tool_name(task) or "" for task in suggestion.plan["tasks"]]


def by_id(suggestion: planning_services.Suggestion) -> dict[str, dict[str, Any]]:
    assert suggestion.plan is not None, suggestion
    return plans.tasks_of(suggestion.plan)


def test_one_step_gives_one_task_with_reasons(files_catalogue: list[ToolRecord]) -> None:
    found = planning_services.suggest("list the files of a folder", {"path": "data"})
    assert found.plan == {
        "tasks": [
            {
                "id": "list_directory",
                "type": "tool",
                "tool": "files.list_directory",
                "arguments": {"path": {"$from": "inputs", "select": "path"}},
            }
        ]
    }
    assert found.layers == (("list_directory",),)
    assert 0.7 < found.confidence <= 1.0
    assert "matches" in found.reasons[0].reasons[0]
    assert not found.missing_inputs
    assert not found.warnings


def test_steps_are_connected_by_their_schemas(files_catalogue: list[ToolRecord]) -> None:
    found = planning_services.suggest(
        "list the files of a folder, then parse the XML document", {"path": "data"}
    )
    tasks = by_id(found)
    assert found.layers == (("list_directory",), ("read_file",), ("parse_xml",))
    assert tasks["read_file"]["arguments"]["path"] == {
        "$from": "list_directory",
        "select": "files[?ends_with(@, '.xml')] | [0]",
    }
    assert tasks["parse_xml"]["arguments"]["text"] == {"$from": "read_file", "select": "content"}
    given = next(reason for reason in found.reasons if reason.task == "read_file")
    assert given.reasons[0] == "gives 'text' to files.parse_xml"


def test_missing_arguments_are_named_and_lower_confidence(
    files_catalogue: list[ToolRecord],
) -> None:
    without = planning_services.suggest("list the files of a folder")
    assert without.missing_inputs == {"path": "files.list_directory"}
    assert (
        without.confidence
        < planning_services.suggest("list the files of a folder", {"path": "."}).confidence
    )


def test_a_plan_that_is_not_sure_asks_about_its_tool_and_unused_values(
    files_catalogue: list[ToolRecord],
) -> None:
    sure = planning_services.suggest("list the files of a folder", {"path": "data"})
    assert not sure.questions
    unsure = planning_services.suggest("tidy the folder up tomorrow", {"path": "data"})
    assert unsure.confidence < sure.confidence
    texts = [question.text for question in unsure.questions]
    assert any(text.startswith("Is 'files.") for text in texts)
    assert "No argument has 'tomorrow'. Where does it belong?" in texts


def test_a_tool_that_people_refused_comes_later_and_is_asked_about(
    files_catalogue: list[ToolRecord],
) -> None:
    intent, inputs = "list the files of a folder", {"path": "data"}
    looked_up: list[str] = []

    def refused(names: Collection[str]) -> set[str]:
        looked_up.extend(names)
        return {"files.list_directory"}

    found = planning_services.suggest(intent, inputs, refused=refused)
    assert looked_up[0] == "files.list_directory"
    assert len(looked_up) <= 3
    if tools_of(found) == ["files.list_directory"]:
        assert "People refused most" in found.questions[0].text
    (before,) = planning_services.suggest(intent, inputs).reasons
    (after,) = found.reasons
    assert after.confidence < before.confidence


def test_a_replan_asks_about_a_tool_that_people_refused(files_catalogue: list[ToolRecord]) -> None:
    wish, context = "list the files of a folder", {"path": "data"}
    first = replanning.replan({"tasks": []}, [], wish, context)
    assert not first.questions
    found = replanning.replan({"tasks": []}, [], wish, context, refused=lambda names: names)
    assert found.plan is not None
    assert found.confidence < first.confidence
    (asked,) = found.questions
    assert (asked.task, asked.text[:19]) == (found.added[0], "People refused most")


def test_without_a_match_the_nearest_tools_are_named(files_catalogue: list[ToolRecord]) -> None:
    found = planning_services.suggest("bake a chocolate cake")
    assert found.plan is None
    assert found.confidence < 0.45
    assert found.nearest
    assert "No tool fits 'bake a chocolate cake'" in found.warnings[0]


def test_an_unmatched_step_is_omitted_with_a_warning(
    files_catalogue: list[ToolRecord],
) -> None:
    found = planning_services.suggest(
        "parse the json document, then bake a chocolate cake", {"text": "{}"}
    )
    assert tools_of(found) == ["files.parse_json"]
    assert any("bake a chocolate cake" in warning for warning in found.warnings)


@pytest.mark.parametrize("intent", ["", "  ", "\x00", "???"])
def test_an_empty_intent_or_catalogue_is_reported(db: None, intent: str) -> None:
    found = planning_services.suggest(intent)
    assert (found.plan, found.confidence) == (None, 0.0)
    assert found.warnings
    assert planning_services.suggest("read a file").warnings


def test_a_disabled_tool_and_a_forbidden_set_are_never_planned(
    files_catalogue: list[ToolRecord],
) -> None:
    ingest.set_tool_policy(name="files.write_file", permission_set="trusted")
    intent, inputs = "write text into a file", {"path": "a", "content": "b"}
    assert tools_of(planning_services.suggest(intent, inputs)) == ["files.write_file"]
    filters = Filters(permission_sets=("minimal", "readonly"))
    assert "files.write_file" not in str(
        planning_services.suggest(intent, inputs, filters=filters).plan
    )
    ingest.set_tool_policy(name="files.write_file", enabled=False)
    assert "files.write_file" not in str(planning_services.suggest(intent, inputs).plan)


def test_a_capability_is_a_task_of_its_own_kind(db: None) -> None:
    capability = make_tool(
        "capability.count_lines",
        "Count the lines of a text",
        kind="capability",
        properties={"lines": {"type": "array"}},
    )
    ingest.upsert_tools([capability])
    found = planning_services.suggest("count the lines", {"lines": ["a"]})
    assert by_id(found)["count_lines"] == {
        "id": "count_lines",
        "type": "capability",
        "capability": "count_lines",
        "inputs": {"lines": {"$from": "inputs", "select": "lines"}},
    }


def test_the_setting_limits_the_tasks_of_a_plan(
    files_catalogue: list[ToolRecord], holdpoint: Callable[..., None]
) -> None:
    holdpoint(suggest_max_tasks=2)
    intent = "; ".join(["list the files of a folder"] * 5)
    found = planning_services.suggest(intent, {"path": "."})
    assert len(tools_of(found)) == 2
    assert any("full" in warning for warning in found.warnings)


def test_without_its_embedder_a_plan_still_comes_with_a_warning(
    files_catalogue: list[ToolRecord], holdpoint: Callable[..., None]
) -> None:
    holdpoint(embedder="openai:http://127.0.0.1:1/v1", suggest_threshold=0.3)
    found = planning_services.suggest("list the files of a folder", {"path": "."})
    assert tools_of(found) == ["files.list_directory"]
    assert "full text alone" in found.warnings[0]


@pytest.mark.parametrize(
    ("intent", "inputs", "expected"),
    [
        ("the current time in a timezone", {"timezone": "Asia/Tokyo"}, ["clock.current_time"]),
        ("fetch https://example.org/a.html", {}, ["web.fetch"]),
        (
            "compare two branches, then stage the files",
            {"repo_path": ".", "target": "main", "files": ["a"]},
            ["repository.compare_branches", "repository.stage_files"],
        ),
    ],
)
def test_intents_find_their_tools_among_many(
    large_catalogue: None, intent: str, inputs: dict[str, Any], expected: list[str]
) -> None:
    found = planning_services.suggest(intent, inputs)
    assert tools_of(found) == expected
    assert not found.missing_inputs


@pytest.mark.parametrize(
    "nonsense",
    ["order a pizza with extra cheese", "tune the violin", "play some jazz"],
)
def test_nonsense_among_many_tools_gives_no_plan(large_catalogue: None, nonsense: str) -> None:
    assert planning_services.suggest(nonsense).plan is None
