"""Start backtests of review rules, and publish rules with their report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet

from reviews.models import Backtest
from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.decide import Refused
from workflows.engine.values.reasons import Reason
from workflows.executions.access import may_backtest, workflows_for
from workflows.executions.validation import InvalidRequest
from workflows.models import RuleVersion, Workflow
from workflows.review_rules import active_rules
from workflows.review_rules import publish as review_rules_publish

from . import jobs

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: The maximum number of running backtests per person.
AT_ONCE: Final = 3


def visible(user: User) -> QuerySet[Backtest]:
    """Return the backtests visible to the user, newest first.

    A backtest covers all reviews of a workflow, so it needs more than visibility of single runs.
    """
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
    """Start a backtest of `rules` against the reviews from `since` to `until`.

    The job is enqueued after the commit.

    Raises:
        PermissionDenied: the user cannot run backtests.
        InvalidRequest: the rules or the range are invalid.
        Refused: the user has too many running backtests.
    """
    if not may_backtest(user):
        raise PermissionDenied(
            "Auditors, operators and admins can test rules against past reviews."
        )
    _, checked = review_rules_publish.checked_rules(workflow, rules)
    if not checked:
        raise InvalidRequest((Problem("rules", "empty", "give at least one rule"),))
    if since and until and since >= until:
        raise InvalidRequest((Problem("to", "empty_range", "must be later than from"),))
    running = Backtest.objects.filter(author=user, status__in=("QUEUED", "RUNNING")).count()
    if running >= AT_ONCE:
        raise Refused("busy", Reason("backtests_running", {"number": running}))
    backtest = Backtest.objects.create(
        workflow=workflow,
        rules=checked,
        rules_digest=review_rules_publish.rules_digest(checked),
        base_version=active_rules.current_rules(workflow).version,
        since=since,
        until=until,
        author=user,
        author_name=user.get_username(),
    )
    jobs.enqueue(backtest.pk)
    return backtest


def publish(*, user: User, backtest: Backtest, source: str, comment: str = "") -> RuleVersion:
    """Publish the rules of a finished backtest with its report.

    Raises PermissionDenied, InvalidRequest, Refused if the backtest is not finished, or
    RulesChanged if other rules were published since the draft.
    """
    if backtest.status != Backtest.Status.DONE:
        raise Refused("not_done", Reason("backtest_not_done"))
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
    """Return `rules` with the draft in place of the rule with its name, else appended."""
    if any(each["name"] == draft.get("name") for each in rules):
        return [draft if each["name"] == draft.get("name") else each for each in rules]
    return [*rules, draft]
