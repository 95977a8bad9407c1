"""Reasons: a code with parameters, rendered in the reader's language."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from workflows.engine.values.reasons import (
    TEMPLATES,
    Reason,
    load_reason,
    placeholders,
    reason_fields,
)

PACKAGES = ("config", "graphrag", "reviews", "workflows")


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path, ast.parse(path.read_text())


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node


def called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def literal_codes(node: ast.expr) -> list[str]:
    """The codes that an expression can have, where it spells them out."""
    if isinstance(node, ast.Constant):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*literal_codes(node.body), *literal_codes(node.orelse)]
    return []


def made() -> Iterator[tuple[str, str, list[str], frozenset[str] | None]]:
    """Each `Reason(…)` of the code: where, its codes and the names of its parameters if visible."""
    for path, tree in modules():
        for node in calls(tree):
            if called(node) != "Reason":
                continue
            names: frozenset[str] | None = frozenset()
            if len(node.args) > 1:
                given = node.args[1]
                names = None
                if isinstance(given, ast.Dict):
                    names = frozenset(ast.literal_eval(key) for key in given.keys if key)
            yield f"{path}:{node.lineno}", ast.unparse(node), literal_codes(node.args[0]), names


def test_each_producer_gives_exactly_the_placeholders_of_its_template() -> None:
    found = list(made())
    assert len(found) > 20
    for where, text, codes, names in found:
        for code in codes:
            assert code in TEMPLATES, f"{where}: {text}"
            assert names is None or names == placeholders(code), f"{where}: {text}"


def test_each_template_has_a_producer() -> None:
    strings = {
        node.value
        for path, tree in modules()
        if path.name != "reasons.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(TEMPLATES) - strings == set()


@pytest.mark.parametrize("code", TEMPLATES)
def test_each_template_renders_with_named_placeholders_only(code: str) -> None:
    params = {name: f"<{name}>" for name in placeholders(code)}
    text = Reason(code, params).text
    assert all(value in text for value in params.values())
    assert "%" not in text
    assert len(code) <= 40


@pytest.mark.parametrize("value", ["%(x)s", "%s %d %%", "{x}", "100 %", "%(task)s", "<b>é</b>"])
def test_a_parameter_comes_out_as_it_is(value: str) -> None:
    inner = Reason("review_before", {"task": value})
    outer = Reason("review_with_rule", {"review": inner, "rule": value})
    assert inner.text == f"task {value} asks for review before it runs"
    assert outer.text == f"task {value} asks for review before it runs; {value}"


def test_a_stored_reason_is_read_back_with_the_reasons_inside_it() -> None:
    rule = Reason("rule_published", {"name": "r1", "version": 2})
    reason = Reason("rule_condition", {"rule": rule})
    stored = json.loads(json.dumps(reason_fields("why", reason)))
    assert stored["why"] == "the condition of rule r1 v2 holds"
    assert load_reason(stored["why_code"], stored["why_params"]) == reason


def test_the_translation_applies_to_templates_and_not_to_parameters() -> None:
    rule = Reason("rule_draft", {"name": "rule %(name)s"})
    reason = Reason("rule_condition", {"rule": rule})
    german = {
        "the condition of %(rule)s holds": "die Bedingung von %(rule)s trifft zu",
        "rule %(name)s": "Regel %(name)s",
    }
    assert reason.render(german.__getitem__) == ("die Bedingung von Regel rule %(name)s trifft zu")


@pytest.mark.parametrize(
    ("code", "params"),
    [
        ("", {}),
        (None, None),
        ("not_a_code", {}),
        ("review_before", {}),
        ("review_before", {"task": "a", "more": 1}),
        ("review_before", ["task"]),
        ("rule_condition", {"rule": {"code": "not_a_code", "params": {}}}),
        ("rule_condition", {"rule": {"name": "r1"}}),
        (["review_before"], {"task": "a"}),
    ],
)
def test_what_this_version_cannot_render_is_no_reason(code: object, params: object) -> None:
    assert load_reason(code, params) is None


def test_a_text_of_a_person_has_no_code() -> None:
    assert reason_fields("error", "no") == {"error": "no", "error_code": "", "error_params": {}}
    assert reason_fields("error", None)["error"] == ""


#: What takes a reason: the name of a call and the position of the reason in it.
TAKES_REASON = {"Refused": 1, "NotAllowed": 0, "conflict": 2, "Conflict": 1}
#: Events with a sentence, and the fields of sentences.
EVENTS_WITH_SENTENCES = {
    "AgentFailed", "CommandRefused", "ExecutionAborted", "ExecutionFailed", "HoldDecided",
    "HoldOpened", "ReplanFailed", "ReviewSpared", "SpeculationMiss", "TaskErrored",
}  # fmt: skip
SENTENCES = {"why", "error", "comment", "reason", "summary"}


def is_english(node: ast.expr) -> bool:
    """Whether an expression spells out a sentence."""
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value)


def test_no_module_stores_a_finished_sentence_where_a_reason_belongs() -> None:
    found = []
    for path, tree in modules():
        if path.is_relative_to(ROOT / "config"):
            continue
        for node in calls(tree):
            name, values = called(node), []
            position = TAKES_REASON.get(name)
            if position is not None and len(node.args) > position:
                values = [node.args[position]]
            if name in EVENTS_WITH_SENTENCES:
                values = [each.value for each in node.keywords if each.arg in SENTENCES]
            if name == "reason_fields":
                values = node.args[1:]
            if any(map(is_english, values)):
                found.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert found == []
