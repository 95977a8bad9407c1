"""Validate and publish review rules, which skip reviews.  Versions are append-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from pydantic import ValidationError

from workflows.common.redaction import mask_secrets
from workflows.engine.plans.validation import Problem, validation_problems
from workflows.engine.policy.policies import ReviewRules
from workflows.engine.values.bounded_json import BoundedJSONError, check_value, digest
from workflows.executions import access
from workflows.executions.validation import InvalidRequest
from workflows.models import RuleVersion, SecurityEvent, Workflow
from workflows.security_events.services import record_security_event

from . import active_rules

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MAX_COMMENT = 4000


class RulesChanged(Exception):
    """Other rules were published meanwhile; `number` is the present version."""

    def __init__(self, number: int) -> None:
        super().__init__(f"Version {number} is active now. Check it before you publish.")
        self.number = number


@dataclass(frozen=True, slots=True)
class BacktestReport:
    """The backtest that rules are published with: its id, its digest and that of its rules."""

    id: int
    digest: str
    rules_digest: str


def checked_rules(workflow: Workflow, data: Any) -> tuple[ReviewRules, list[dict[str, Any]]]:
    """Validate rules, and return them parsed and as stored JSON.

    Raises InvalidRequest with paths such as `rules[0].when`.
    """
    if not isinstance(data, list):
        raise InvalidRequest((Problem("rules", "not_a_list", "must be a list of rules"),))
    try:
        check_value(data)
        rules = ReviewRules.model_validate({"rules": data})
    except BoundedJSONError as error:
        where = f"rules{error.path}" if error.path.startswith("[") else "rules"
        raise InvalidRequest((Problem(where, "malformed", error.message),)) from error
    except ValidationError as error:
        raise InvalidRequest(validation_problems(error)) from error
    problems = tuple(_unknown_tasks(workflow, rules))
    if problems:
        raise InvalidRequest(problems)
    return rules, [rule.model_dump(mode="json", exclude_none=True) for rule in rules.rules]


def _unknown_tasks(workflow: Workflow, rules: ReviewRules) -> Iterator[Problem]:
    """Yield a problem for each task name that the workflow's plan does not have."""
    plan = workflow.plan if isinstance(workflow.plan, Mapping) else {}
    known = {task.get("id") for task in plan.get("tasks", ()) if isinstance(task, Mapping)}
    for index, rule in enumerate(rules.rules):
        for position, name in enumerate(rule.tasks):
            if name not in known:
                path = f"rules[{index}].tasks[{position}]"
                yield Problem(path, "unknown_task", f"the workflow has no task {name!r}")


def rules_digest(rules: Any) -> str:
    """Return the SHA-256 of the canonical JSON of stored rules."""
    return digest(rules)


def publish(
    *,
    actor: User,
    workflow: Workflow,
    rules: Any,
    expected: int,
    source: str,
    comment: str = "",
    report: BacktestReport | None = None,
) -> RuleVersion:
    """Publish rules for executions that start from now on, and return the new version.

    `expected` is the version that the sender saw.  Rules need the `report` of a backtest of exactly
    these rules; an empty list needs none.  Raises PermissionDenied, RulesChanged or InvalidRequest.
    """
    _check(actor, workflow, comment)
    _, stored = checked_rules(workflow, rules)
    _check_token(actor, stored)
    stored_digest = rules_digest(stored)
    if stored and (report is None or report.rules_digest != stored_digest):
        message = "publish rules with the report of a finished backtest of these very rules"
        raise InvalidRequest((Problem("backtest", "no_report", message),))
    return _add(
        workflow,
        expected,
        rules=stored,
        digest=stored_digest,
        report=report.id if report else None,
        report_digest=report.digest if report else "",
        author=actor,
        author_name=actor.get_username(),
        source=source,
        comment=mask_secrets(comment),
    )


def republish(
    *, actor: User, workflow: Workflow, number: int, expected: int, source: str, comment: str = ""
) -> RuleVersion:
    """Publish an older version again, with the report it was published with.

    Raises the exceptions of `publish`, and InvalidRequest if the rules name a task that the
    workflow no longer has.
    """
    _check(actor, workflow, comment)
    old = active_rules.versions(workflow).filter(number=number).first()
    if old is None:
        message = f"there is no version {number}"
        raise InvalidRequest((Problem("republish", "no_such_version", message),))
    checked_rules(workflow, old.rules)
    _check_token(actor, old.rules)
    return _add(
        workflow,
        expected,
        rules=old.rules,
        digest=old.digest,
        report=old.report,
        report_digest=old.report_digest,
        republished=old.number,
        author=actor,
        author_name=actor.get_username(),
        source=source,
        comment=mask_secrets(comment),
    )


def _check(actor: User, workflow: Workflow, comment: str) -> None:
    if not access.may_publish_rules(actor):
        raise PermissionDenied("Operators and admins publish rules.")
    if not access.workflows_for(actor).filter(pk=workflow.pk).exists():
        raise PermissionDenied("This token is for other workflows.")
    try:
        check_value(comment)
    except BoundedJSONError as error:
        raise InvalidRequest((Problem("comment", "malformed", error.message),)) from error
    if len(comment) > MAX_COMMENT:
        message = f"must have at most {MAX_COMMENT} characters"
        raise InvalidRequest((Problem("comment", "too_long", message),))


def _check_token(actor: User, rules: Any) -> None:
    """Raise PermissionDenied for a token without the scope `loosen`: rules skip reviews."""
    token = access.credential_of(actor)
    if rules and token is not None and access.LOOSEN not in token.scopes:
        raise PermissionDenied("A token needs the scope loosen to publish rules that skip reviews.")


def _add(workflow: Workflow, expected: int, **fields: Any) -> RuleVersion:
    with transaction.atomic():
        # Lock the workflow, so that the second of two concurrent publishers sees the first version.
        Workflow.objects.select_for_update(no_key=True).get(pk=workflow.pk)
        newest = active_rules.versions(workflow).values_list("number", flat=True).first() or 0
        if newest != expected:
            raise RulesChanged(newest)
        version = RuleVersion.objects.create(workflow=workflow, number=newest + 1, **fields)
        record_security_event(
            kind=SecurityEvent.Kind.RULES_PUBLISHED,
            actor=version.author or version.author_name,
            subject=f"workflow:{workflow.pk}",
            details={
                "workflow": workflow.name,
                "version": version.number,
                "rules": len(version.rules),
                "source": version.source,
            },
        )
    return version
