"""Absences: who decides for a person while they are away."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now


class AbsenceSet(models.QuerySet["Absence"]):
    """Absences, with filters by time."""

    def current(self) -> AbsenceSet:
        """Absences of active people that have begun and not ended, by the database's clock."""
        return self.ahead().filter(begins_at__lte=Now())

    def ahead(self) -> AbsenceSet:
        """Absences of active people that have not ended, begun or not."""
        return self.filter(ends_at__gt=Now(), cancelled_at=None, user__is_active=True)


class Absence(models.Model):
    """A time in which `delegate` decides reviews for `user`; rows are cancelled, never changed."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="absences"
    )
    delegate = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="delegations"
    )
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now())
    cancelled_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    cancelled_at = models.DateTimeField(null=True, blank=True)

    objects = AbsenceSet.as_manager()

    class Meta:
        ordering = ("-begins_at", "-pk")
        constraints = [
            models.CheckConstraint(
                condition=Q(ends_at__gt=F("begins_at")), name="absence_has_a_length"
            ),
            models.CheckConstraint(condition=~Q(user=F("delegate")), name="absence_of_two_people"),
        ]
        indexes = [
            models.Index(
                fields=["delegate", "ends_at"],
                condition=Q(cancelled_at=None),
                name="absence_by_delegate",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.delegate} for {self.user}"
