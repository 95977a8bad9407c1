"""Change accounts and groups. Each change is logged in the log of the admin, by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.admin.models import CHANGE
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.auth.models import Group
from django.contrib.auth.tokens import default_token_generator
from django.contrib.sessions.models import Session
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _

from reviews.components.admin_rights import log
from reviews.models import (
    ChatHook,
    ReviewClaim,
    SlackAccount,
    SlackLinkCode,
)
from reviews.notifications.notice_text import absolute_url
from reviews.notifications.outbox import mail_is_on
from reviews.sockets import broadcasts
from workflows.models import Absence, ApiToken, Grant, WebhookEndpoint
from workflows.permissions import tokens
from workflows.permissions.grants import IN_FORCE, end_grants

from .rights import (
    ChangeRefused,
    check_account,
    check_may_manage,
    check_members,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User


def set_active(*, actor: User, person: User, active: bool) -> None:
    """Deactivate an account and end its access; or activate it again, without what has ended.

    Raises PermissionDenied, and ChangeRefused: OwnAccount, or for the last administrator.
    """
    with transaction.atomic():
        check_account(
            actor,
            person,
            is_active=active,
            is_staff=person.is_staff,
            is_superuser=person.is_superuser,
            groups=person.groups.all(),
        )
        changed = get_user_model().objects.filter(pk=person.pk, is_active=not active)
        if changed.update(is_active=active):
            if not active:
                end_access(actor=actor, person=person)
            log(actor, person, CHANGE, [{"changed": {"fields": ["Active"]}}])


def send_password_link(*, actor: User, person: User) -> None:
    """Mail a person a link with which they set a new password.

    The link goes to the address of the account, works once and for a few days, and ends when the
    account is deactivated.  Raises PermissionDenied and ChangeRefused.
    """
    check_may_manage(actor, person)
    if not settings.PASSWORD_LOGIN:
        raise ChangeRefused(_("People sign in with the sign-in provider, not with a password."))
    if not mail_is_on():
        raise ChangeRefused(_("No mail server is configured."))
    if not person.is_active or not person.email:
        raise ChangeRefused(_("Only active accounts with an e-mail address can get a link."))
    token = default_token_generator.make_token(person)
    key = urlsafe_base64_encode(force_bytes(person.pk))
    url = absolute_url(reverse("new_password", args=(key, token)))
    text = _("Set a new password for your account %(name)s here:") % {"name": person.get_username()}
    try:
        send_mail("[Holdpoint] Your password", f"{text}\n\n{url}\n", None, [person.email])
    except OSError as error:
        raise ChangeRefused(_("The mail server refused the message.")) from error
    log(actor, person, CHANGE, "Sent a link to set a new password.")


def revoke_tokens(*, actor: User, person: User) -> None:
    """Revoke all API tokens of a person."""
    with transaction.atomic():
        if tokens.revoke(tokens=ApiToken.objects.filter(user=person)):
            log(actor, person, CHANGE, "Revoked the API tokens.")


def change_members(
    *, actor: User, group: Group, add: Iterable[User] = (), remove: Iterable[User] = ()
) -> None:
    """Add people to a group and remove people from it, with one log entry for each.

    Call it in a transaction.  Raises PermissionDenied and ChangeRefused.
    """
    add, remove = list(add), list(remove)
    check_members(actor, group, add=add, remove=remove)
    group.user_set.add(*add)
    group.user_set.remove(*remove)
    for person in (*add, *remove):
        log(actor, person, CHANGE, [{"changed": {"fields": ["Groups"]}}])


def end_access(*, actor: User, person: User) -> None:
    """End everything by which an account acts, in the transaction that deactivates it.

    Requests, sockets, links in e-mails and buttons in chats check the account each time.  This ends
    for good what would work again after the account is activated: sessions, API tokens with what
    OAuth clients got, claims, grants that the person gave, absences, links to chats and browsers,
    webhook endpoints, and the password.  Links in e-mails and sessions that open meanwhile end
    with the password.
    """
    person.set_unusable_password()
    person.save(update_fields=["password"])
    _end_sessions(person)
    tokens.revoke(tokens=ApiToken.objects.filter(user=person))
    tokens.end_oauth_codes(person)
    claimed = list(ReviewClaim.objects.filter(user=person).select_related("hold"))
    ReviewClaim.objects.filter(pk__in=[each.pk for each in claimed]).delete()
    for each in claimed:
        broadcasts.hold_activity(each.hold.execution_id, each.hold_id)
    given = Grant.objects.filter(IN_FORCE, granted_by_id=person.pk)
    end_grants(given, by=actor.get_username())
    # Reviews of an absent person are theirs again when the delegate leaves.
    absences = Absence.objects.filter(Q(user=person) | Q(delegate=person), cancelled_at=None)
    absences.filter(ends_at__gt=Now()).update(cancelled_at=Now(), cancelled_by=actor.get_username())
    SlackAccount.objects.filter(user=person).delete()
    SlackLinkCode.objects.filter(user=person).delete()
    ChatHook.objects.filter(user=person).delete()
    WebhookEndpoint.objects.filter(owner=person).update(enabled=False)


def _end_sessions(person: User) -> None:
    """Delete the person's sessions; sessions name their user in their data only."""
    rows = Session.objects.filter(expire_date__gt=timezone.now())
    own = [
        each.session_key
        for each in rows.iterator()
        if each.get_decoded().get(SESSION_KEY) == str(person.pk)
    ]
    Session.objects.filter(session_key__in=own).delete()
