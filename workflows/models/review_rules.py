"""Published review rules."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from workflows.common.guards import AppendOnly, NoTruncate


class RuleVersion(models.Model):
    """A published version of a workflow's review rules.  Rows are never changed.

    The newest version applies to executions that start after it.  `report` is the id of the
    backtest it was published with and `report_digest` that of its report; both are empty if there
    are no rules.  `republished` is the number of the older version that this one repeats.
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
        triggers = [AppendOnly(), NoTruncate()]
        ordering = ("-number",)

    def __str__(self) -> str:
        return f"rules v{self.number}"
