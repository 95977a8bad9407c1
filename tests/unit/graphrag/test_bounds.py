"""Work of the planner with a hostile catalogue, counted in comparisons."""

from collections.abc import Mapping
from typing import Any

import pytest

from graphrag.catalogue.tool_record import ToolRecord
from graphrag.planning import argument_sources, arguments, intents, literals, parameters

STRING = {"type": "string"}


def tool(names: list[str], *required: str, output: Mapping[str, Any] | None = None) -> ToolRecord:
    schema = {
        "type": "object",
        "properties": dict.fromkeys(names, STRING),
        "required": list(required),
    }
    return ToolRecord(name="s.t", kind="mcp", server="s", input_schema=schema, output_schema=output)


def test_required_parameters_are_kept_before_optional_ones() -> None:
    names = [f"p{number}" for number in range(5_000)]
    found = parameters.parameters_of(tool(names, "p4999", "p4000"))
    assert len(found) == parameters.MAX_PARAMETERS
    assert [each.name for each in found[:3]] == ["p4000", "p4999", "p0"]


def test_a_suggestion_with_many_inputs_compares_some_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    fit = argument_sources.fit

    def counted(*given: Any) -> float:
        nonlocal compared
        compared += 1
        return fit(*given)

    monkeypatch.setattr(argument_sources, "fit", counted)
    inputs = {f"input{number}": "x" for number in range(10_000)}
    (step,) = intents.steps("do it")
    available = list(argument_sources.sources_of_values("inputs", inputs))
    assert len(available) == argument_sources.MAX_SOURCES
    names = [f"p{number}" for number in range(5_000)]
    arguments.fill(tool(names, *names), step=step, available=available)
    # Each parameter is looked for twice: by its exact name, and by a similar one.
    assert compared <= 2 * parameters.MAX_PARAMETERS * argument_sources.MAX_SOURCES


def test_an_output_with_many_properties_gives_some_of_them() -> None:
    parts = dict.fromkeys([f"part{number}" for number in range(5_000)], STRING)
    record = tool([], output={"type": "object", "properties": parts})
    found = list(argument_sources.sources_of_task("t", record))
    assert len(found) == argument_sources.MAX_SOURCES


def test_a_long_text_gives_its_first_literals() -> None:
    found = literals.find(" ".join(f"file{number}.txt" for number in range(400)))
    assert len(found) == literals.MAX_LITERALS
    assert found[0].value == "file0.txt"
    assert found[-1].value == f"file{literals.MAX_LITERALS - 1}.txt"


def test_a_long_text_is_compared_with_each_parameter_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    affinity = parameters.affinity

    def counted(*given: Any) -> float:
        nonlocal compared
        compared += 1
        return affinity(*given)

    monkeypatch.setattr(parameters, "affinity", counted)
    (step,) = intents.steps("read " + " ".join(f"file{number}.txt" for number in range(150)))
    names = [f"p{number}" for number in range(5_000)]
    arguments.fill(tool(names), step=step, available=[])
    assert compared <= literals.MAX_LITERALS * parameters.MAX_PARAMETERS


def test_a_long_list_of_choices_is_cut() -> None:
    schema = {"type": "string", "enum": [f"choice{number}" for number in range(5_000)]}
    parameter = parameters.Parameter("p", schema, True, tool([]))
    assert len(parameter.choices) == parameters.MAX_CHOICES
