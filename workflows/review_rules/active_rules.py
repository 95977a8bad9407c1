"""Reading the rules that spare reviews: what is in force for a workflow, and what was."""

from __future__ import annotations

from django.db.models import QuerySet

from workflows.engine.policy import ReviewRules
from workflows.models import RuleVersion, Workflow


def versions(workflow: Workflow) -> QuerySet[RuleVersion]:
    """Every version that was published, newest first."""
    return RuleVersion.objects.filter(workflow=workflow).order_by("-number")


def current_rules(workflow: Workflow) -> ReviewRules:
    """The rules that an execution takes along when it starts now; version 0 when there are none."""
    newest = versions(workflow).values_list("number", "rules").first()
    if newest is None:
        return ReviewRules()
    return ReviewRules.model_validate({"version": newest[0], "rules": newest[1]})
