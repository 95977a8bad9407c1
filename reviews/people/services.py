"""Add and change accounts and groups. Each change is logged in the log of the admin, by field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.contrib.admin.models import ADDITION, CHANGE
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from reviews.components.admin_rights import log, log_addition, log_change
from reviews.models import (
    ChatHook,
    ReviewClaim,
    SlackAccount,
    SlackLinkCode,
    TeamsAccount,
)
from reviews.sockets import broadcasts
from workflows.models import Absence, ApiToken, Grant, WebhookEndpoint
from workflows.permissions import tokens
from workflows.permissions.grants import IN_FORCE, end_grants

from .forms import AddPersonForm, PasswordForm, PersonForm
from .rights import (
    ChangeRefused,
    check_account,
    check_administrator_stays,
    check_group_name,
    check_groups,
    check_may_manage,
    check_members,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class OwnAccount(ChangeRefused):
    """People do not deactivate themselves: no one might be left to reverse it."""

    def __str__(self) -> str:
        return _("You cannot deactivate your own account. Ask another administrator.")


def add_person(*, actor: User, form: AddPersonForm) -> User:
    """Create the account of a valid form; raises ChangeRefused."""
    check_groups(actor, groups=form.cleaned_data["groups"])
    try:
        with transaction.atomic():
            person: User = form.save()
            log_addition(actor, person, form)
    except IntegrityError:
        # Another request has stored the name since the form was checked.
        raise ChangeRefused(_("A user with that username already exists.")) from None
    return person


def change_person(*, actor: User, form: PersonForm) -> None:
    """Save a valid form of an account; nothing is logged if nothing changed.

    Raises PermissionDenied and ChangeRefused.
    """
    person = form.instance
    check_may_manage(actor, person)
    if not form.changed_data:
        return
    with transaction.atomic():
        check_account(
            actor,
            person,
            is_active=person.is_active,
            is_staff=form.cleaned_data["is_staff"],
            is_superuser=person.is_superuser,
            groups=form.cleaned_data["groups"],
        )
        log_change(actor, form.save(), form)


def set_password(*, actor: User, form: PasswordForm) -> None:
    """Save the new password of a valid form; raises PermissionDenied."""
    check_may_manage(actor, form.user)
    with transaction.atomic():
        log_change(actor, form.save(), form)


def set_active(*, actor: User, person: User, active: bool) -> None:
    """Deactivate an account and end its access; or activate it again, without what has ended.

    Raises PermissionDenied, and ChangeRefused: OwnAccount, or for the last administrator.
    """
    check_may_manage(actor, person)
    if not active and person.pk == actor.pk:
        raise OwnAccount
    with transaction.atomic():
        check_administrator_stays(
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


def add_group(*, actor: User, name: str) -> Group:
    """Create a group, without members and permissions; raises ChangeRefused."""
    check_group_name(name)
    try:
        with transaction.atomic():
            group = Group.objects.create(name=name)
    except IntegrityError:
        # Another request has stored the name since it was checked.
        raise ChangeRefused(_("There is a group with this name.")) from None
    log(actor, group, ADDITION, [{"added": {}}])
    return group


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
    tokens.revoke(tokens=ApiToken.objects.filter(user=person), by=actor)
    tokens.end_oauth_codes(person)
    claimed = list(ReviewClaim.objects.filter(user=person).select_related("hold"))
    ReviewClaim.objects.filter(pk__in=[each.pk for each in claimed]).delete()
    for each in claimed:
        broadcasts.hold_activity(each.hold.execution_id, each.hold_id)
    given = Grant.objects.filter(IN_FORCE, granted_by_id=person.pk)
    end_grants(given, by=actor)
    # Reviews of an absent person are theirs again when the delegate leaves.
    absences = Absence.objects.filter(Q(user=person) | Q(delegate=person), cancelled_at=None)
    absences.filter(ends_at__gt=Now()).update(cancelled_at=Now(), cancelled_by=actor.get_username())
    SlackAccount.objects.filter(user=person).delete()
    TeamsAccount.objects.filter(user=person).delete()
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
