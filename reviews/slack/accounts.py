"""Slack accounts, and the people who linked them.

A person who has signed in gets a code in the notification settings and enters it in Slack.  The
request that brings the code is signed, so it is certain whose account it is; only the person
sees the code.  A Slack account enters few codes in a time.  An e-mail address links nothing.
A change of the person's password ends codes and links, so neither outlives a stolen session.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.contrib.admin.models import ADDITION, DELETION, LogEntry
from django.db import transaction
from django.db.models.functions import Now
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from reviews.models import SlackAccount, SlackLinkCode, SlackWorkspace
from workflows.api.throttling import is_attempt_allowed

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Without letters and digits that look alike.
_ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_CODE_LENGTH: Final = 10
CODE_MINUTES: Final = 10
#: Codes that one Slack account may enter in this time, right or wrong.
_MAX_ATTEMPTS: Final = 10


class CodeInvalid(Exception):
    """The code was never given, was used, is too old, or from before a change of password."""


class TooManyCodes(Exception):
    """The Slack account has entered too many codes in `CODE_MINUTES`."""


def has_workspaces() -> bool:
    """Whether any Slack workspace is connected."""
    return SlackWorkspace.objects.filter(enabled=True).exists()


def create_code(user: User) -> str:
    """Return a new code that links one account; an earlier code of the user ends."""
    code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
    SlackLinkCode.objects.update_or_create(
        user=user,
        defaults={
            "digest": _digest(code),
            "session_hash": user.get_session_auth_hash(),
            "expires_at": Now() + timedelta(minutes=CODE_MINUTES),
        },
    )
    return f"{code[:5]}-{code[5:]}"


def link_by_code(workspace: SlackWorkspace, slack_user: str, code: str) -> SlackAccount:
    """Link the Slack account to the person of the code; raises CodeInvalid and TooManyCodes.

    It replaces an earlier link of this Slack account, and the person's earlier account.
    """
    account = f"slack:{workspace.pk}:{slack_user}"
    if not is_attempt_allowed(f"link-code:{account}", _MAX_ATTEMPTS, seconds=CODE_MINUTES * 60):
        raise TooManyCodes
    with transaction.atomic():
        return link(workspace, slack_user, _use_code(code))


def _use_code(code: str) -> User:
    """Delete the code and return its person, in the caller's transaction; raises CodeInvalid."""
    rows = SlackLinkCode.objects.select_for_update().select_related("user")
    row = rows.filter(digest=_digest(code), expires_at__gt=Now(), user__is_active=True).first()
    if row is None:
        raise CodeInvalid
    user = row.user
    if not constant_time_compare(row.session_hash, user.get_session_auth_hash()):
        raise CodeInvalid
    row.delete()
    return user


def link(workspace: SlackWorkspace, slack_user: str, user: User) -> SlackAccount:
    """Store the link, in the caller's transaction."""
    accounts = SlackAccount.objects.filter(workspace=workspace)
    accounts.filter(slack_user=slack_user).delete()
    accounts.filter(user=user).delete()
    account = SlackAccount.objects.create(
        workspace=workspace,
        slack_user=slack_user,
        user=user,
        session_hash=user.get_session_auth_hash(),
    )
    _log(user, account, ADDITION)
    return account


def unlink(user: User, account_id: int) -> bool:
    """Remove one of the user's own links; return False if they have no such link."""
    with transaction.atomic():
        account = SlackAccount.objects.filter(pk=account_id, user=user).first()
        if account is None:
            return False
        _log(user, account, DELETION)
        account.delete()
    return True


def accounts_of(user: User) -> list[SlackAccount]:
    """Return the Slack accounts that the user has linked."""
    return list(SlackAccount.objects.filter(user=user).select_related("workspace", "user"))


def person_of(workspace: SlackWorkspace, slack_user: str) -> User | None:
    """Return the person who linked this Slack account, or None; a link may have ended."""
    rows = SlackAccount.objects.select_related("user")
    account = rows.filter(workspace=workspace, slack_user=slack_user).first()
    return account.user if account and account.is_current else None


def _digest(code: str) -> str:
    plain = code.upper().replace("-", "").replace(" ", "")
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()


def _log(user: User, account: SlackAccount, flag: int) -> None:
    rows = SlackAccount.objects.filter(pk=account.pk)
    message = _("Slack account %(account)s in %(workspace)s") % {
        "account": account.slack_user,
        "workspace": account.workspace.name,
    }
    LogEntry.objects.log_actions(user.pk, rows, flag, change_message=message, single_object=True)
