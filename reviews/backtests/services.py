"""Backtests: rules held against the reviews of a workflow, and publishing them with the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet

from reviews.models import Backtest
from workflows.engine.decide import Refused
from workflows.engine.plan_validation import Problem
from workflows.executions.access import may_backtest, workflows_for
from workflows.executions.validation import InvalidRequest
from workflows.models import RuleVersion, Workflow
from workflows.review_rules import active_rules
from workflows.review_rules import publish as review_rules_publish

from . import jobs

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Backtests of one person that may be under way at a time.
AT_ONCE: Final = 3


def visible(user: User) -> QuerySet[Backtest]:
    """The backtests this person may read, newest first: they tell of every review of a workflow."""
    if not may_backtest(user):
        return Backtest.objects.none()
    rows = Backtest.objects.filter(workflow__in=workflows_for(user))
    return rows.select_related("workflow").order_by("-pk")


def start(
    *,
    user: User,
    workflow: Workflow,
    rules: Any,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Backtest:
    """Hold `rules` (a list as it would be published) against the reviews from `since` to `until`.

    A worker takes it up after the commit.  Raises PermissionDenied, InvalidRequest with paths, or
    Refused when this person has too many under way.
    """
    if not may_backtest(user):
        raise PermissionDenied(
            "Auditors, operators and admins can test rules against past reviews."
        )
    _, kept = review_rules_publish.checked_rules(workflow, rules)
    if not kept:
        raise InvalidRequest((Problem("rules", "empty", "give at least one rule"),))
    if since and until and since >= until:
        raise InvalidRequest((Problem("to", "empty_range", "must be later than from"),))
    open_ones = Backtest.objects.filter(author=user, status__in=("QUEUED", "RUNNING")).count()
    if open_ones >= AT_ONCE:
        raise Refused("busy", f"{open_ones} of your backtests are running; wait until one ends.")
    backtest = Backtest.objects.create(
        workflow=workflow,
        rules=kept,
        rules_digest=review_rules_publish.rules_digest(kept),
        base_version=active_rules.current_rules(workflow).version,
        since=since,
        until=until,
        author=user,
        author_name=user.get_username(),
    )
    jobs.send(backtest.pk)
    return backtest


def publish(*, user: User, backtest: Backtest, source: str, comment: str = "") -> RuleVersion:
    """Put the rules of a finished backtest in force, its report attached.

    Raises PermissionDenied, InvalidRequest, Refused when it is not finished, or
    publishing.RulesChanged when other rules were published since they were drafted.
    """
    if backtest.status != Backtest.Status.DONE:
        raise Refused("not_done", "This backtest has no report yet.")
    return review_rules_publish.publish(
        actor=user,
        workflow=backtest.workflow,
        rules=backtest.rules,
        expected=backtest.base_version,
        source=source,
        comment=comment,
        report=review_rules_publish.BacktestReport(
            backtest.pk, backtest.digest, backtest.rules_digest
        ),
    )


def with_rule(
    rules: Sequence[Mapping[str, Any]], draft: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """`rules` with the draft in the place of the one that has its name, else behind them all."""
    if any(each["name"] == draft.get("name") for each in rules):
        return [draft if each["name"] == draft.get("name") else each for each in rules]
    return [*rules, draft]
