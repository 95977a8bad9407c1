"""Counters for /metrics, and the positions of readers of the event log."""

from __future__ import annotations

from django.db import models


class EventCursor(models.Model):
    """The position of a reader of all journals: the newest entry it has processed."""

    name = models.CharField(max_length=40, primary_key=True)
    event = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} at {self.event}"


class Total(models.Model):
    """A metric counter with one label value, for /metrics; it never decreases."""

    name = models.CharField(max_length=60)
    label = models.CharField(max_length=60, default="", blank=True)
    value = models.FloatField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "label"], name="total_once")]

    def __str__(self) -> str:
        return f"{self.name}{{{self.label}}} {self.value:g}"
