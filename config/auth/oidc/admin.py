"""Remove allauth's admin pages except accounts: the rest is configured by the environment."""

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialApp, SocialToken
from django.contrib import admin

for model in (EmailAddress, SocialApp, SocialToken):
    if admin.site.is_registered(model):
        admin.site.unregister(model)
