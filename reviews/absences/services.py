"""Set and end absences, and find the delegates of absent people."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.contrib.admin.models import ADDITION, CHANGE
from django.contrib.auth import get_user_model
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse
from django.utils import timezone

from reviews.components.admin_rights import log
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.rights import NotAllowed
from reviews.notifications import notice_text
from workflows.common.schemas import FieldError
from workflows.engine.values.reasons import Reason
from workflows.executions import access
from workflows.models import Absence

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MAX_DAYS = 366
#: Forms send minutes, so that an absence from now on begins in the past.
_FORM_PRECISION = timedelta(minutes=1)


def set_absence(
    *, actor: User, user: User, delegate: User | None, begins_at: datetime, ends_at: datetime
) -> Absence:
    """Let `delegate` decide for `user` from `begins_at` until `ends_at`.

    An absence that an admin sets for another person is logged, and the person gets an e-mail.
    Raises NotAllowed unless the actor is the user or an admin, and ReviewInvalid for a delegate or
    times that cannot be used.
    """
    _check_actor(actor, user)
    with transaction.atomic():
        # Two absences of these people are checked one after the other.
        ids = sorted({user.pk, *([delegate.pk] if delegate else [])})
        list(get_user_model().objects.select_for_update().filter(pk__in=ids).order_by("pk"))
        problems = absence_problems(actor, user, delegate, begins_at, ends_at)
        if problems or delegate is None:
            raise ReviewInvalid(problems)
        absence = Absence.objects.create(
            user=user,
            delegate=delegate,
            begins_at=begins_at,
            ends_at=ends_at,
            created_by=actor.get_username(),
        )
        if actor.pk != user.pk:
            log(actor, absence, ADDITION, _summary(absence))
            transaction.on_commit(lambda: _mail(absence), robust=True)
        return absence


def _summary(absence: Absence) -> str:
    """`dana decides for ron from 2026-05-04 08:00 UTC until …; set by boss.`"""
    begins, ends = (f"{each:%Y-%m-%d %H:%M %Z}" for each in (absence.begins_at, absence.ends_at))
    return (
        f"{absence.delegate} decides for {absence.user} from {begins} until {ends};"
        f" set by {absence.created_by}."
    )


def _mail(absence: Absence) -> None:
    """Tell the absent person, who may end the absence."""
    if absence.user.email:
        url = notice_text.absolute_url(reverse("reviews:absences"))
        body = f"{_summary(absence)}\n\nEnd it here if it is wrong: {url}\n"
        send_mail("[Holdpoint] Your absence", body, None, [absence.user.email])


def end_absence(*, actor: User, absence: Absence) -> bool:
    """End or cancel an absence now; False if it has ended.  Raises NotAllowed."""
    _check_actor(actor, absence.user)
    rows = Absence.objects.ahead().filter(pk=absence.pk)
    ended = bool(rows.update(cancelled_at=Now(), cancelled_by=actor.get_username()))
    if ended and actor.pk != absence.user_id:
        log(actor, absence, CHANGE, f"Ended. {_summary(absence)}")
    return ended


def _check_actor(actor: User, user: User) -> None:
    if actor.pk != user.pk and access.ADMIN not in access.roles_of(actor):
        raise NotAllowed(Reason("not_allowed"))


def absence_problems(
    actor: User, user: User, delegate: User | None, begins_at: datetime, ends_at: datetime
) -> list[FieldError]:
    """Return why the actor cannot set this absence; empty if they can."""
    problems = []
    is_others = actor.pk != user.pk
    reason = _delegate_problem(user, delegate)
    if is_others and delegate is not None and delegate.pk == actor.pk:
        reason = "must be another person than you: only the absent person can choose you"
    if reason:
        problems.append(FieldError("delegate", reason))
    if is_others and begins_at < timezone.now() - _FORM_PRECISION:
        message = "must not be in the past: only people themselves enter past absences"
        problems.append(FieldError("begins_at", message))
    if ends_at <= begins_at:
        problems.append(FieldError("ends_at", "must be after the beginning"))
    elif ends_at <= timezone.now():
        problems.append(FieldError("ends_at", "must be in the future"))
    elif ends_at - begins_at > timedelta(days=MAX_DAYS):
        problems.append(FieldError("ends_at", f"must be at most {MAX_DAYS} days after it"))
    if problems or delegate is None:
        return problems
    overlaps = Absence.objects.ahead().filter(begins_at__lt=ends_at, ends_at__gt=begins_at)
    if overlaps.filter(user=user.pk).exists():
        message = "overlaps another absence; end that one first"
        problems.append(FieldError("begins_at", message))
    if overlaps.filter(user=delegate.pk).exists():
        message = "is away in this time too; choose another person"
        problems.append(FieldError("delegate", message))
    return problems


def _delegate_problem(user: User, delegate: User | None) -> str:
    if delegate is None or not delegate.is_active:
        return "is no person with an active account"
    if delegate.pk == user.pk:
        return "must be another person"
    roles = access.roles_of(delegate)
    if not roles:
        return "is in no group"
    return "is an auditor, and auditors only read" if access.AUDITOR in roles else ""


def possible_delegates(user: User) -> list[str]:
    """Return the names of the people who can stand in for the user, sorted; at most 500."""
    people = get_user_model().objects.filter(is_active=True).exclude(pk=user.pk)
    people = people.filter(Q(groups__isnull=False) | Q(is_superuser=True))
    names = people.exclude(groups__name=access.AUDITOR).order_by("username")
    return list(names.values_list("username", flat=True).distinct()[:500])


def delegates_of(user_ids: Iterable[int]) -> dict[int, Absence]:
    """Return the current absences of these people by their id, with user and delegate loaded."""
    rows = Absence.objects.current().filter(user__in=list(user_ids), delegate__is_active=True)
    return {each.user_id: each for each in rows.select_related("user", "delegate")}


def stands_in_for(delegate: User, user: User) -> bool:
    """Whether `delegate` decides for `user` now."""
    return Absence.objects.current().filter(delegate=delegate.pk, user=user.pk).exists()
