"""Admin of linked accounts of the provider; the environment configures the rest of allauth."""

from __future__ import annotations

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.http import HttpRequest

for model in (EmailAddress, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(SocialAccount)
class LinkedAccountAdmin(admin.ModelAdmin[SocialAccount]):
    """Linked accounts: deleting one ends the link.

    A sign-in or `manage.py link_oidc` links an account.  Here nobody does: whoever has the account
    at the provider acts as the person.
    """

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: SocialAccount | None = None) -> bool:
        return False
