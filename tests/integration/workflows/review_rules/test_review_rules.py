"""Review rules in runs on PostgreSQL: evaluated once, stored, and never past a required review."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, connection, transaction
from django.db.models.functions import Now

from tests.integration.workflows.conftest import Engine, review, source, value
from tests.integration.workflows.journal.test_leases import expire_lease
from workflows.common import crashpoints
from workflows.engine.policy.policies import Policy
from workflows.engine.protocol.review_rules import sample_position
from workflows.executions import access
from workflows.executions.services import fork_execution, start_execution
from workflows.executions.validation import InvalidRequest
from workflows.models import Execution, RuleVersion, Workflow
from workflows.review_rules import publish as review_rules_publish

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class Died(BaseException):
    """The worker is gone."""


def person(name: str, *groups: str) -> User:
    user = get_user_model().objects.create_user(name)
    user.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    return user


def workflow(*tasks: dict[str, Any], **fields: Any) -> Workflow:
    return Workflow.objects.create(name="w", title="W", plan={"tasks": list(tasks)}, **fields)


def put_in_force(
    found: Workflow, *rules: dict[str, Any], author: User | None = None
) -> RuleVersion:
    """Publish rules with a report of them, as the newest version."""
    author = (
        author or get_user_model().objects.filter(username="op").first() or person("op", "operator")
    )
    number = found.rule_versions.count()
    named = [{"name": f"r{index}", **rule} for index, rule in enumerate(rules, 1)]
    _, kept = review_rules_publish.checked_rules(found, named)
    return review_rules_publish.publish(
        actor=author,
        workflow=found,
        rules=named,
        expected=number,
        source="test",
        report=review_rules_publish.BacktestReport(
            1, "d" * 64, review_rules_publish.rules_digest(kept)
        ),
    )


def skipped_reviews(execution: Execution) -> list[dict[str, Any]]:
    rows = execution.events.filter(kind="review_spared").order_by("seq")
    return list(rows.values_list("payload", flat=True))


def rescue(engine: Engine, execution: Execution, point: str) -> None:
    """A worker dies at this point, if it gets there; its claim runs out."""

    def die() -> None:
        raise Died

    crashpoints.arm(point, die)
    try:
        engine.drive(execution)
    except Died:
        expire_lease(execution)
        Execution.objects.filter(pk=execution.pk, wake_at__isnull=False).update(wake_at=Now())
    finally:
        crashpoints.set_observer(None)


# --- runs -----------------------------------------------------------------------------------------


def test_a_run_keeps_the_rules_active_at_its_start(engine: Engine) -> None:
    found = workflow(value("a", 1), value("b", source("a"), **review("AFTER")))
    put_in_force(found, {"skip_when": "output == `1`"})
    before = start_execution(actor=None, workflow=found)
    put_in_force(found, {"skip_when": "output == `2`"})
    after = start_execution(actor=None, workflow=found)
    assert engine.drive(before).status == "COMPLETED"
    [event] = skipped_reviews(before)
    assert (event["rule"], event["rules_version"], event["skip_when"]) == ("r1", 1, "output == `1`")
    assert event["why"] == "the condition of rule r1 v1 holds"
    assert not before.holds.exists()
    assert engine.drive(after).status == "PAUSED_FOR_REVIEW"
    assert not skipped_reviews(after)


def test_a_task_of_an_ad_hoc_plan_can_skip_its_review(engine: Engine) -> None:
    run = engine.run(value("a", 1, **review("AFTER", skip_when="output == `1`")))
    assert run.status == "COMPLETED"
    [event] = skipped_reviews(run)
    assert (event["rule"], event["rules_version"]) == ("", 0)
    assert event["why"] == "the condition of the task's own rule holds"


def test_a_rule_sees_the_inputs_that_a_task_ran_with(engine: Engine) -> None:
    """Also by a worker that did not run it: they come from the journal."""
    task = value("a", source("inputs", "n"), **review("AFTER", skip_when="inputs.value == `7`"))
    execution = engine.start(task, value("slow", 1), inputs={"n": 7})

    rescue(engine, execution, "step.after:2")
    assert engine.drive(execution).status == "COMPLETED"
    assert len(skipped_reviews(execution)) == 1


@pytest.mark.parametrize(
    "point",
    [
        "step.before:1",
        "step.before:2",
        "step.before:3",
        "step.after:1",
        "step.after:2",
        "step.after:3",
    ],
)
@pytest.mark.parametrize("phase", ["BEFORE", "AFTER"])
def test_a_verdict_is_recorded_once_wherever_a_worker_dies(
    engine: Engine, point: str, phase: str
) -> None:
    execution = engine.start(value("a", 1, **review(phase, sample=0)), value("b", source("a")))

    rescue(engine, execution, point)
    assert engine.drive(execution).status == "COMPLETED"
    assert len(skipped_reviews(execution)) == 1
    assert not execution.holds.exists()


@pytest.mark.parametrize("is_spared", [True, False])
def test_a_fork_repeats_the_sampling_of_its_parent(engine: Engine, is_spared: bool) -> None:
    """By the first run's id, however many forks lie between: nobody forks until they are spared."""
    found = workflow(
        value("a"),
        value("x", source("a")),
        value("b", source("x"), **review("AFTER")),
    )
    run = start_execution(actor=None, workflow=found)
    # A sample right at where this run falls: hardly another id falls between the two edges.
    edge = sample_position(str(run.pk), "b") + (0 if is_spared else 1e-9)
    rules = {"version": 1, "rules": [{"name": "r1", "sample": edge}]}
    Execution.objects.filter(pk=run.pk).update(policy={**run.policy, "review_rules": rules})
    family = [engine.drive(run)]
    for layer in (0, 1):
        parent = family[-1]
        point = parent.checkpoints.get(layer=layer)
        fork = fork_execution(execution=parent, checkpoint=point, actor=None)
        family.append(engine.drive(fork))
    status = "COMPLETED" if is_spared else "PAUSED_FOR_REVIEW"
    assert [each.status for each in family] == [status] * 3
    [origin] = {each.state["origin"] for each in family[1:]}
    assert origin == str(run.pk)


def test_a_hold_lists_the_evaluated_rules(engine: Engine) -> None:
    found = workflow(value("a", 1, **review("AFTER")))
    put_in_force(found, {"skip_when": "length(inputs.nothing) > `1`"})
    run = engine.drive(start_execution(actor=None, workflow=found))
    [hold] = engine.holds(run)
    assert "rule r1 v1 could not be evaluated" in hold.why


def test_reviews_before_tools_that_modify_data_are_not_skipped(engine: Engine) -> None:
    task = {**value("a", 1), "tool": "testkit.effect", **review("BEFORE")}
    found = workflow(task)
    put_in_force(found, {"skip_when": "`true`"})
    run = engine.drive(start_execution(actor=None, workflow=found))
    assert run.status == "PAUSED_FOR_REVIEW"
    assert engine.called(run) == []


def test_layer_approvals_are_not_skipped(engine: Engine) -> None:
    found = workflow(value("a", 1), policy={"hil": {"enabled": True}})
    put_in_force(found, {"skip_when": "`true`"})
    run = engine.drive(start_execution(actor=None, workflow=found))
    assert [hold.reason for hold in engine.holds(run)] == ["layer_approval"]


# --- publishing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["override", "workflow"])
def test_a_policy_contains_no_rules(engine: Engine, where: str) -> None:
    """Whoever starts a run cannot bring the rules that spare it."""
    rules = {"review_rules": {"version": 9, "rules": [{"name": "x", "sample": 0}]}}
    found = workflow(value("a"), policy=rules if where == "workflow" else {})
    with pytest.raises(InvalidRequest) as caught:
        start_execution(actor=None, workflow=found, policy=rules if where == "override" else None)
    assert [each.path for each in caught.value.problems] == ["policy.review_rules"]


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        ({}, "rules"),
        ([{"name": "x"}], "rules[0]"),
        ([{"name": "x", "skip_when": "x["}], "rules[0].skip_when"),
        ([{"name": "x", "sample": 1}, {"name": "y", "sample": 2}], "rules[1].sample"),
        ([{"name": "x", "sample": 1, "tasks": ["a", "nobody"]}], "rules[0].tasks[1]"),
        ([{"name": "x", "sample": 1, "colour": "red"}], "rules[0].colour"),
        ([{"name": "x", "skip_when": "\0"}], "rules[0].skip_when"),
        ([{"name": "x", "sample": 1}] * 51, "rules"),
    ],
)
def test_invalid_rules_are_named_with_their_path(engine: Engine, rules: Any, path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        review_rules_publish.checked_rules(workflow(value("a")), rules)
    assert caught.value.problems[0].path == path


@pytest.mark.parametrize("groups", [["reviewer"], ["auditor"], ["integrator"], []])
def test_starters_cannot_choose_which_runs_are_reviewed(engine: Engine, groups: list[str]) -> None:
    author = person("starter", *groups)
    with pytest.raises(PermissionDenied):
        put_in_force(workflow(value("a"), created_by=author), {"sample": 0}, author=author)


def test_a_token_for_other_workflows_cannot_publish(engine: Engine) -> None:
    author = access.limit_to_workflows(person("op", "operator"), [0])
    with pytest.raises(PermissionDenied):
        put_in_force(workflow(value("a")), {"sample": 0}, author=author)


def test_publishing_needs_a_report_of_the_same_rules(engine: Engine) -> None:
    found, author = workflow(value("a")), person("op", "operator")
    other = review_rules_publish.BacktestReport(1, "d" * 64, "0" * 64)
    rules = [{"name": "x", "sample": 0.5}]
    for report in (None, other):
        with pytest.raises(InvalidRequest) as caught:
            review_rules_publish.publish(
                actor=author, workflow=found, rules=rules, expected=0, source="test", report=report
            )
        assert caught.value.problems[0].code == "no_report"
    made = review_rules_publish.publish(
        actor=author, workflow=found, rules=[], expected=0, source="test"
    )
    assert (made.number, made.rules, made.report) == (1, [], None)


def test_one_of_many_concurrent_publishers_wins(engine: Engine) -> None:
    found, author = workflow(value("a")), person("op", "operator")
    rules = [{"name": "x", "sample": 0.5}]
    _, kept = review_rules_publish.checked_rules(found, rules)
    report = review_rules_publish.BacktestReport(
        1, "d" * 64, review_rules_publish.rules_digest(kept)
    )

    def go(_: int) -> str:
        try:
            review_rules_publish.publish(
                actor=author, workflow=found, rules=rules, expected=0, source="test", report=report
            )
        except review_rules_publish.RulesChanged as moved:
            return f"moved to {moved.number}"
        finally:
            connection.close()
        return "published"

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(go, range(8)))
    assert answers == ["moved to 1"] * 7 + ["published"]
    assert [each.number for each in found.rule_versions.all()] == [1]


def test_an_older_version_is_restored_with_its_report(engine: Engine) -> None:
    found = workflow(value("a"))
    first = put_in_force(found, {"sample": 0.5})
    put_in_force(found, {"sample": 0.1})
    author = get_user_model().objects.get(username="op")
    again = review_rules_publish.republish(
        actor=author, workflow=found, number=1, expected=2, source="test", comment="too few"
    )
    assert (again.number, again.republished, again.rules) == (3, 1, first.rules)
    assert (again.report, again.report_digest) == (first.report, first.report_digest)
    with pytest.raises(review_rules_publish.RulesChanged):
        review_rules_publish.republish(
            actor=author, workflow=found, number=1, expected=2, source="test"
        )
    with pytest.raises(InvalidRequest):
        review_rules_publish.republish(
            actor=author, workflow=found, number=9, expected=3, source="test"
        )


def test_a_published_version_never_changes(engine: Engine) -> None:
    made = put_in_force(workflow(value("a")), {"sample": 0.5})
    for statement in (
        "UPDATE workflows_ruleversion SET rules = '[]'",
        "DELETE FROM workflows_ruleversion",
        "TRUNCATE workflows_ruleversion",
    ):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    made.refresh_from_db()
    assert made.rules == [{"name": "r1", "tools": [], "tasks": [], "sample": 0.5}]


def test_executions_of_older_releases_have_no_rules() -> None:
    assert Policy.model_validate({"four_eyes": True}).review_rules.version == 0
