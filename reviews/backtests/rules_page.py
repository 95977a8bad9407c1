"""The review rules of a workflow: what is in force, and every version before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from workflows.executions.access import may_backtest, may_publish_rules
from workflows.models import Workflow
from workflows.review_rules import active_rules

from .labels import difference

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_MOST = 200


def rules_context(user: User, workflow: Workflow) -> dict[str, Any]:
    """Versions, newest first, each with what it changed."""
    found = list(active_rules.versions(workflow)[: _MOST + 1])
    older = [*found[1:], None][: len(found)]
    reads_reports = may_backtest(user)
    draft = f"{reverse('reviews:backtest')}?workflow={workflow.pk}"
    return {
        "workflow": workflow,
        "workflow_url": reverse("reviews:workflow", args=(workflow.pk,)),
        "draft_url": draft if reads_reports else "",
        "publish_url": reverse("reviews:workflow_rules", args=(workflow.pk,)),
        "may_publish": may_publish_rules(user),
        "number": found[0].number if found else 0,
        "has_rules": bool(found and found[0].rules),
        "versions": [
            {
                "number": each.number,
                "author": each.author_name,
                "at": each.created_at,
                "comment": each.comment,
                "republished": each.republished,
                "digest": each.digest,
                "is_in_force": index == 0,
                "report": each.report,
                "report_digest": each.report_digest,
                "report_url": reverse("reviews:backtest_report", args=(each.report,))
                if each.report is not None and reads_reports
                else "",
                "changes": difference(before.rules if before else [], each.rules),
            }
            for index, (each, before) in enumerate(zip(found, older, strict=True))
        ][:_MOST],
    }


def rules_summary(user: User, workflow: Workflow) -> dict[str, Any]:
    """What the workflow's own page says of them."""
    rules = active_rules.current_rules(workflow)
    return {
        "version": rules.version,
        "changes": difference([], [rule.model_dump(mode="json") for rule in rules.rules]),
        "url": reverse("reviews:workflow_rules", args=(workflow.pk,)),
        "draft_url": f"{reverse('reviews:backtest')}?workflow={workflow.pk}"
        if may_backtest(user)
        else "",
    }
