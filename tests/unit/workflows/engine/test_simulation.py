"""Where a run would stop, by the engine's own loop."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.engine.plans.dag import Plan
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.simulation import Example, Point, Simulation, simulate
from workflows.engine.protocol.state import HoldReason, SkipReason
from workflows.engine.values.expression_paths import read_paths


def task(name: str, review: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": name,
        "type": "tool",
        "tool": "bank.transfer",
        "permission_set": "minimal",
        "human_review": review,
        **fields,
    }


def simulated(
    *tasks: dict[str, Any],
    policy: dict[str, Any] | None = None,
    inputs: dict[str, Any] | None = None,
    outputs: dict[str, Any] | None = None,
    hidden: frozenset[str] = frozenset(),
) -> Simulation:
    plan = Plan.model_validate({"tasks": tasks})
    rules = Policy.model_validate(policy or {})
    return simulate(plan, rules, Example(inputs or {}, outputs or {}, hidden))


def only(found: Simulation) -> Point:
    [point] = found.points
    assert found.is_complete
    return point


def test_a_review_stops_the_run_with_its_people_and_its_deadline() -> None:
    review = {
        "groups": ["finance"],
        "quorum": 2,
        "timeout_seconds": 3600,
        "on_reject": "skip",
        "reminders": [{"at": 0.5}],
        "escalation": [{"after_seconds": 600, "groups": ["board"]}],
    }
    point = only(simulated(task("pay", review)))
    assert (point.outcome, point.task_id, point.phase) == ("stops", "pay", "BEFORE_EXECUTION")
    assert (point.groups, point.quorum, point.layer) == (("finance",), 2, 0)
    assert (point.timeout_seconds, point.on_timeout, point.on_reject) == (3600, "reject", "skip")
    assert point.reminders == (1800.0,)
    assert point.escalation[0]["groups"] == ["board"]


def test_a_rule_on_known_values_skips_or_not() -> None:
    pay = task("pay", {"skip_when": "inputs.amount < `10`"}, arguments={"amount": 5})
    point = only(simulated(pay))
    assert (point.outcome, point.rule, point.why and point.why.code) == (
        "skipped",
        "",
        "rule_condition",
    )
    assert only(simulated({**pay, "arguments": {"amount": 50}})).outcome == "stops"


def test_a_published_rule_is_named_with_its_version() -> None:
    rules = {"version": 3, "rules": [{"name": "small", "skip_when": "inputs.amount < `10`"}]}
    found = simulated(task("pay", {}, arguments={"amount": 5}), policy={"review_rules": rules})
    assert (only(found).rule, only(found).rules_version) == ("small", 3)


def test_a_rule_never_skips_before_a_task_that_can_modify_data() -> None:
    pay = task("pay", {"skip_when": "`true`"}, permission_set="trusted")
    point = only(simulated(pay))
    assert (point.outcome, point.why and point.why.code) == ("stops", "never_skipped_high_risk")


def test_a_rule_that_reads_an_unknown_output_is_undecided() -> None:
    reads = {"$from": "quote", "select": "price"}
    condition = "inputs.amount < `10`"
    tasks = (task("quote"), task("pay", {"skip_when": condition}, arguments={"amount": reads}))
    point = only(simulated(*tasks))
    assert (point.outcome, point.unknown) == ("depends", ("quote",))
    assert only(simulated(*tasks, outputs={"quote": {"price": 7}})).outcome == "skipped"
    assert only(simulated(*tasks, outputs={"quote": {"price": 70}})).outcome == "stops"


def test_a_rule_that_reads_only_known_parts_is_decided() -> None:
    arguments = {"to": "ann", "amount": {"$from": "quote"}}
    pay = task("pay", {"skip_when": "inputs.to == 'ann'"}, arguments=arguments)
    assert only(simulated(task("quote"), pay)).outcome == "skipped"


def test_an_unknown_own_output_leaves_a_review_after_the_task_undecided() -> None:
    review = {"trigger_phase": "AFTER_EXECUTION", "skip_when": "output.ok"}
    assert only(simulated(task("pay", review))).unknown == ("pay",)
    assert only(simulated(task("pay", review), outputs={"pay": {"ok": True}})).outcome == "skipped"


def test_an_input_that_the_example_lacks_or_hides_is_unknown() -> None:
    amount = {"$from": "inputs", "select": "amount"}
    pay = task("pay", {"skip_when": "inputs.amount < `10`"}, arguments={"amount": amount})
    assert only(simulated(pay)).unknown == ("inputs.amount",)
    assert only(simulated(pay, inputs={"amount": 1})).outcome == "skipped"
    hidden = simulated(pay, inputs={"amount": 1}, hidden=frozenset({"amount"}))
    assert only(hidden).unknown == ("inputs.amount",)


def test_a_sample_is_reported_as_a_share() -> None:
    point = only(simulated(task("pay", {"sample": 0.2})))
    assert (point.outcome, point.sample, point.why) == ("sampled", 0.2, None)


def test_a_condition_on_known_values_skips_a_task_and_its_review() -> None:
    found = simulated(task("pay", {}, when="inputs.go"), inputs={"go": False})
    assert found.points == ()
    assert found.skipped == {"pay": SkipReason.CONDITION}


def test_a_condition_on_unknown_values_is_assumed_to_hold() -> None:
    found = simulated(
        task("ask"),
        task("pay", {}, when="ask.yes", depends_on=["ask"]),
        task("log", {}, depends_on=["pay"]),
    )
    assert [(each.task_id, each.outcome, each.assumed) for each in found.points] == [
        ("pay", "stops", ("ask",)),
        ("log", "stops", ("ask",)),
    ]


def test_layers_are_approved_as_the_policy_says_and_not_if_nothing_runs() -> None:
    hil = {"enabled": True, "approval_required": "critical_only", "groups": ["operator"]}
    tasks = (
        task("read"),
        task("write", permission_set="trusted", depends_on=["read"], when="inputs.go"),
    )
    point = only(simulated(*tasks, policy={"hil": hil}, inputs={"go": True}))
    assert (point.reason, point.layer, point.groups) == (
        HoldReason.LAYER_APPROVAL,
        1,
        ("operator",),
    )
    assert simulated(*tasks, policy={"hil": hil}, inputs={"go": False}).points == ()
    assert only(simulated(*tasks, policy={"hil": hil})).assumed == ("inputs.go",)


def test_agents_and_validations_are_points_between_layers() -> None:
    tasks = (task("one"), task("two", depends_on=["one"]))
    external = only(simulated(*tasks, policy={"ail": {"enabled": True}}))
    assert (external.outcome, external.decider, external.on_timeout) == (
        "stops",
        "agent",
        "continue",
    )
    registered = simulated(*tasks, policy={"ail": {"enabled": True, "agent": "rules"}})
    assert {each.outcome for each in registered.points} == {"asks"}
    validated = only(simulated(*tasks, policy={"per_layer_validation": True}))
    assert validated.reason is HoldReason.LAYER_VALIDATION


def test_inputs_that_cannot_be_resolved_fail_the_task() -> None:
    broken = task("pay", {}, arguments={"a": {"$from": "inputs", "select": "abs(name)"}})
    found = simulated(broken, inputs={"name": "x"})
    assert found.points == ()
    assert list(found.failed) == ["pay"]


def test_data_that_looks_like_the_mark_of_unknown_values_is_known() -> None:
    pay = task("pay", {"skip_when": "inputs.a == '(unknown)'"}, arguments={"a": "(unknown)"})
    assert only(simulated(pay)).outcome == "skipped"


def test_a_simulation_ends_when_it_is_late() -> None:
    tasks = [task(f"t{number}", {"skip_when": "inputs.a"}) for number in range(5)]
    plan = Plan.model_validate({"tasks": tasks})
    looked = iter([False, False, *[True] * 50])
    found = simulate(plan, Policy(), Example({}), is_late=lambda: next(looked))
    assert not found.is_complete
    assert len(found.points) < 5


@pytest.mark.parametrize(
    ("expression", "paths"),
    [
        ("inputs.a.b", {("inputs", "a")}),
        ('inputs."a b"[0].c', {("inputs", "a b")}),
        ("inputs.*", {("inputs",)}),
        ("@", {()}),
        ("@.inputs.a", {()}),
        ("a && (b.c || !d)", {("a",), ("b", "c"), ("d",)}),
        ("contains(x.y, 'a')", {("x", "y")}),
        ("length(x[?a == `1`].b) > `2`", {("x",)}),
        ("x.y | z", {("x", "y")}),
        ("sort_by(x, &y)[0]", {("x",)}),
        ("{a: b, c: [d]}", {("b",), ("d",)}),
    ],
)
def test_paths_of_an_expression(expression: str, paths: set[tuple[str, ...]]) -> None:
    assert read_paths(expression) == paths
