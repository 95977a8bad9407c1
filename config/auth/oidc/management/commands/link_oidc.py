"""`manage.py link_oidc USER SUB`: an account that is here already signs in through the issuer."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError, transaction

from config.auth.oidc.conf import options as in_force


class Command(BaseCommand):
    """Links a user to the issuer's `sub`.  Nothing else links an account that exists."""

    help = "Let USER sign in as SUB of the issuer in HOLDPOINT_OIDC_ISSUER."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="the user name here")
        parser.add_argument("sub", help="the `sub` claim of the issuer")

    def handle(self, *args: Any, **options: Any) -> None:
        user = get_user_model().objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']!r}.")
        provider = in_force().provider_id
        try:
            with transaction.atomic():
                SocialAccount.objects.create(
                    user=user,
                    provider=provider,
                    uid=options["sub"],
                    extra_data={"iss": in_force().issuer},
                )
        except IntegrityError:
            taken = SocialAccount.objects.get(provider=provider, uid=options["sub"])
            message = f"{options['sub']!r} is linked to {taken.user.get_username()!r} already."
            raise CommandError(message) from None
        self.stdout.write(f"{options['user']} signs in as {options['sub']}.")
