"""Read the active review rules of a workflow and their earlier versions."""

from __future__ import annotations

from django.db.models import QuerySet

from workflows.engine.policy.policies import ReviewRules
from workflows.models import RuleVersion, Workflow


def versions(workflow: Workflow) -> QuerySet[RuleVersion]:
    """Return all published versions, newest first."""
    return RuleVersion.objects.filter(workflow=workflow).order_by("-number")


def current_rules(workflow: Workflow) -> ReviewRules:
    """Return the rules for an execution that starts now; version 0 if there are none."""
    newest = versions(workflow).values_list("number", "rules").first()
    if newest is None:
        return ReviewRules()
    return ReviewRules.model_validate({"version": newest[0], "rules": newest[1]})
