"""Who is let in, under which name, in which groups.

An account is known by issuer and `sub` alone.  An e-mail address or a name that somebody here has
already opens nothing: whoever comes first with a `sub` gets a new account, unless an admin has
linked it to one (`manage.py link_oidc`).
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

from workflows.executions.access import ADMIN, AUDITOR, OPERATOR

from .conf import options
from .refusals import Refused

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = structlog.get_logger(__name__)

#: Words that stand for something else where people are named.
_RESERVED = frozenset({"system", "me"})
_STRANGE = re.compile(r"[^\w.@+-]+")
_LONGEST = 140
_TRIES = 20
#: Who may open the admin pages, as far as their role goes.
_STAFF = frozenset({ADMIN, AUDITOR, OPERATOR})


def admit(account: SocialAccount, claims: Mapping[str, Any]) -> User:
    """The user of these verified claims, made at the first time, groups as they are now.

    Raises Refused.
    """
    email = _checked_email(claims)
    with transaction.atomic():
        user = _known(account) or _made(account, claims)
        if not user.is_active:
            raise Refused("inactive", f"{user.get_username()} is switched off")
        if email and user.email != email:
            user.email = email
            user.save(update_fields=["email"])
        _set_groups(user, claims)
    return user


def _checked_email(claims: Mapping[str, Any]) -> str:
    """The address the issuer vouches for, "" for none."""
    email = claims.get("email")
    vouched = claims.get("email_verified") is True and isinstance(email, str) and "@" in email
    address = str(email)[:254] if vouched else ""
    domains = options().domains
    if domains and address.rpartition("@")[2].lower() not in domains:
        raise Refused("email", f"{email!r}, verified: {claims.get('email_verified')!r}")
    return address


# --- accounts -------------------------------------------------------------------------------------


def _known(account: SocialAccount) -> User | None:
    """The account's user, locked, so that two sign-ins change the groups one after the other."""
    model = get_user_model()
    owners = SocialAccount.objects.filter(provider=account.provider, uid=account.uid)
    rows = model.objects.select_for_update().filter(pk__in=owners.values("user"))
    return rows.first()


def _made(account: SocialAccount, claims: Mapping[str, Any]) -> User:
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
            # The name, or the account, was made just now by another request.
            if (known := _known(account)) is not None:
                return known
            continue
        logger.info("account made at the first sign-in", user=name)
        return user
    raise Refused("provider", "no name is left for this account")


def _names(claims: Mapping[str, Any]) -> Iterator[str]:
    """Names to try: what the issuer calls them, then the same with numbers."""
    email = str(claims.get("email") or "").partition("@")[0]
    wanted = str(claims.get("preferred_username") or email or claims["sub"])
    name = _STRANGE.sub("-", wanted)[:_LONGEST].strip("-") or "user"
    if name.lower() not in _RESERVED:
        yield name
    for number in count(2):
        if number > _TRIES:
            return
        yield f"{name}-{number}"


def _person(claims: Mapping[str, Any]) -> dict[str, str]:
    first, last = (str(claims.get(name) or "")[:150] for name in ("given_name", "family_name"))
    return {"first_name": first, "last_name": last}


# --- groups ---------------------------------------------------------------------------------------


def _set_groups(user: User, claims: Mapping[str, Any]) -> None:
    """Groups in the mapping are given and taken by the claim; others are left alone."""
    mapping = options().groups
    if not mapping:
        return
    theirs = claimed_groups(claims, options().groups_claim)
    wanted = {ours for name, ours in mapping if name in theirs}
    managed = {ours for _, ours in mapping}
    have = set(user.groups.values_list("name", flat=True))
    gone, new = (have & managed) - wanted, wanted - have
    user.groups.remove(*Group.objects.filter(name__in=gone))
    user.groups.add(*(Group.objects.get_or_create(name=name)[0] for name in new))
    if gone or new:
        who = user.get_username()
        logger.info("groups set by the issuer", user=who, gone=sorted(gone), new=sorted(new))
    if managed & _STAFF and not user.is_superuser:
        user.is_staff = bool(((have - gone) | new) & _STAFF)
        user.save(update_fields=["is_staff"])


def claimed_groups(claims: Mapping[str, Any], claim: str) -> frozenset[str]:
    """Names in a claim: a list of them or one; `a.b` also finds `b` inside `a`."""
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    names = [found] if isinstance(found, str) else found
    return frozenset(each for each in names or () if isinstance(each, str))
