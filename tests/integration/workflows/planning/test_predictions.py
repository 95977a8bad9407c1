"""Predictions for a run that is under way: learned, likely, and of tools that only read."""

import pytest

from graphrag.models import Tool
from tests.support.learning import learn
from workflows.planning.planner import predict_next, read_only_tools, sync_python_tools

pytestmark = pytest.mark.django_db(transaction=True)

AFTER = ("builtin.echo", "builtin.select", "builtin.parse_json", "builtin.write_file")


def seen_often(*tools: str) -> None:
    """Each of these tools followed list_directory in six runs."""
    sync_python_tools()
    for number in range(6):
        learn(
            execution_key=f"run {number}",
            layers=[{"builtin.list_directory"}, set(tools)],
            edges=[],
        )


def test_at_most_three_readers_above_the_threshold_are_predicted() -> None:
    seen_often(*AFTER, "builtin.parse_xml")
    likely = predict_next(["builtin.list_directory"])
    assert len(likely) == 3
    assert all(each.confidence > 0.7 for each in likely)
    assert {each.tool for each in likely} <= {*AFTER, "builtin.parse_xml"} - {"builtin.write_file"}


def test_a_writer_does_not_replace_a_reader() -> None:
    seen_often("builtin.write_file", "builtin.echo")
    assert [each.tool for each in predict_next(["builtin.list_directory"])] == ["builtin.echo"]


def test_one_observation_is_not_enough() -> None:
    sync_python_tools()
    learn(execution_key="once", layers=[{"builtin.list_directory"}, {"builtin.echo"}], edges=[])
    assert predict_next(["builtin.list_directory"]) == []


@pytest.mark.parametrize(
    "change", [{"enabled": False}, {"read_only": False}, {"destructive": True}]
)
def test_the_read_only_mark_counts_unless_contradicted(change: dict[str, bool]) -> None:
    sync_python_tools()
    assert read_only_tools(["builtin.echo", "builtin.write_file"]) == {"builtin.echo"}
    Tool.objects.filter(name="builtin.echo").update(**change)
    assert read_only_tools(["builtin.echo"]) == frozenset()


def test_code_that_is_not_marked_is_not_read_only_whatever_the_catalogue_says() -> None:
    sync_python_tools()
    Tool.objects.filter(name="builtin.write_file").update(read_only=True)
    assert read_only_tools(["builtin.write_file"]) == frozenset()
