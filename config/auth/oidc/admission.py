"""Admit a verified identity: its account, user name and groups.

An account is identified only by issuer and `sub`.  A matching e-mail address or name never gives
access to an existing account: a new `sub` gets a new account unless an admin has linked it
(`manage.py link_oidc`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import structlog
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from reviews.people.account_names import has_odd_letters, is_reserved, mixes_scripts, plain_name
from workflows.executions.access import STAFF_ROLES

from .conf import options
from .refusals import Refused

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = structlog.get_logger(__name__)

_INVALID_CHARACTERS = re.compile(r"[^\w.@+-]+")
_MAX_NAME_LENGTH = 140
_MAX_NAME_ATTEMPTS = 20


def admit(account: SocialAccount, claims: Mapping[str, Any]) -> User:
    """Return the user of the verified claims with current groups; create them at first sign-in.

    Raises Refused.
    """
    email = _checked_email(claims)
    with transaction.atomic():
        user = _existing_user(account) or _create_user(account, claims)
        if not user.is_active:
            raise Refused("inactive", f"{user.get_username()} is disabled")
        if email and user.email != email:
            user.email = email
            user.save(update_fields=["email"])
        _set_groups(user, claims)
    return user


def _checked_email(claims: Mapping[str, Any]) -> str:
    """Return the verified address, or ""; raises Refused if its domain is not allowed."""
    email = claims.get("email")
    verified = claims.get("email_verified") is True and isinstance(email, str) and "@" in email
    address = str(email)[:254] if verified else ""
    domains = options().domains
    if domains and address.rpartition("@")[2].lower() not in domains:
        raise Refused("email", f"{email!r}, verified: {claims.get('email_verified')!r}")
    return address


# --- accounts -------------------------------------------------------------------------------------


def _existing_user(account: SocialAccount) -> User | None:
    """Return the account's user, locked to serialize group changes of concurrent sign-ins."""
    model = get_user_model()
    owners = SocialAccount.objects.filter(provider=account.provider, uid=account.uid)
    rows = model.objects.select_for_update().filter(pk__in=owners.values("user"))
    return rows.first()


def _create_user(account: SocialAccount, claims: Mapping[str, Any]) -> User:
    model = get_user_model()
    for name in _names(claims):
        if model.objects.filter(username__iexact=name).exists():
            continue
        try:
            with transaction.atomic():
                user = model(username=name, **_person(claims))
                user.set_unusable_password()
                user.save()
                account.user = user
                account.save()
        except IntegrityError:
            # Another request created the name or the account at the same time.
            if (existing := _existing_user(account)) is not None:
                return existing
            continue
        logger.info("account made at the first sign-in", user=name)
        return user
    raise Refused("provider", "no name is left for this account")


def _names(claims: Mapping[str, Any]) -> Iterator[str]:
    """Yield candidate names: the issuer's name, then the name with numbers."""
    email = str(claims.get("email") or "").partition("@")[0]
    preferred = str(claims.get("preferred_username") or email or claims["sub"])
    plain = plain_name(preferred)
    name = _INVALID_CHARACTERS.sub("-", plain)[:_MAX_NAME_LENGTH].strip("-") or "user"
    if mixes_scripts(name) or has_odd_letters(name):
        name = "user"
    if not is_reserved(name):
        yield name
    for number in count(2):
        if number > _MAX_NAME_ATTEMPTS:
            return
        yield f"{name}-{number}"


def _person(claims: Mapping[str, Any]) -> dict[str, str]:
    first, last = (str(claims.get(name) or "")[:150] for name in ("given_name", "family_name"))
    return {"first_name": first, "last_name": last}


# --- groups ---------------------------------------------------------------------------------------


def _set_groups(user: User, claims: Mapping[str, Any]) -> None:
    """Add and remove mapped groups according to the claim; other groups stay."""
    mapping = options().groups
    if not mapping:
        return
    issuer_groups = claimed_groups(claims, options().groups_claim)
    wanted = {ours for name, ours in mapping if name in issuer_groups}
    managed = {ours for _, ours in mapping}
    current = set(user.groups.values_list("name", flat=True))
    removed, added = (current & managed) - wanted, wanted - current
    user.groups.remove(*Group.objects.filter(name__in=removed))
    user.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in added))
    if removed or added:
        logger.info(
            "groups set by the issuer",
            user=user.get_username(),
            removed=sorted(removed),
            added=sorted(added),
        )
    if managed & STAFF_ROLES and not user.is_superuser:
        user.is_staff = bool(((current - removed) | added) & STAFF_ROLES)
        user.save(update_fields=["is_staff"])


def claimed_groups(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Return the names in a claim, a list or one string; `a.b` also matches `b` inside `a`."""
    value: Any = claims.get(claim)
    if value is None:
        value = claims
        for part in claim.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    names = [value] if isinstance(value, str) else value
    return frozenset(each for each in names or () if isinstance(each, str))
