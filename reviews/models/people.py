"""Accounts and groups that an identity provider manages over SCIM."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models.functions import Now


class ProvisionedUser(models.Model):
    """The provider's id of an account.

    An account that the provider deleted stays, inactive, because records name it.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="provisioned",
        primary_key=True,
    )
    external_id = models.CharField(max_length=255, blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["external_id"], name="provisioned_user_external")]

    def __str__(self) -> str:
        return str(self.user)


class ProvisionedGroup(models.Model):
    """A group whose members the provider manages; the row ends when the provider deletes it."""

    group = models.OneToOneField(
        Group, on_delete=models.CASCADE, related_name="provisioned", primary_key=True
    )
    external_id = models.CharField(max_length=255, blank=True, default="", db_default="")
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return str(self.group)
