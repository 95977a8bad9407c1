"""Rows for the rules that spare reviews, as they were published."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class RuleVersion(models.Model):
    """The review rules of a workflow as somebody published them.  Append-only: never changed.

    The newest is in force for executions that start from then on.  `report` is the number of the
    backtest they were published with and `report_digest` what it said; both are empty when there
    are no rules.  `republished` is the older version that this one brings back.
    """

    workflow = models.ForeignKey(
        "workflows.Workflow", on_delete=models.PROTECT, related_name="rule_versions"
    )
    number = models.IntegerField()
    # A list of engine.policy.ReviewRule as JSON.
    rules = models.JSONField()
    digest = models.CharField(max_length=64)
    report = models.BigIntegerField(null=True)
    report_digest = models.CharField(max_length=64, blank=True, default="")
    republished = models.IntegerField(null=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    author_name = models.CharField(max_length=150)
    source = models.CharField(max_length=20)
    comment = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workflow", "number"], name="rules_number_once"),
        ]
        ordering = ("-number",)

    def __str__(self) -> str:
        return f"rules v{self.number}"
