"""API tokens: making them, and finding out whose one is.

A token reads `hp_<8 letters and digits>_<43 characters>`: a prefix that may be shown, and 256
random bits.  Only its SHA-256 is kept, so a copy of the database opens nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.postgres.expressions import ArraySubquery
from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.models import Model, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from workflows import conf
from workflows.engine.plan_validation import Problem
from workflows.executions import access
from workflows.executions.validation import InvalidRequest
from workflows.journal.statements import query
from workflows.models import ApiToken, Workflow

from . import step_up

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: What a token may be good for.  `admin` is for admins, `loosen` for people with the permission
#: `loosen_policy`; no agent gets `decide` or `loosen` by default.  `decide_high_risk` approves what
#: people confirm with a code (HOLDPOINT_STEP_UP).
SCOPES = ("read", "run", "decide", step_up.SCOPE, access.LOOSEN, "admin")
_SHAPE = re.compile(r"hp_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}")
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#: `last_used_at` is as exact as this, so that a busy token does not write with every request.
_USE_NOTED_EVERY = timedelta(minutes=1)
_MAX_NAME = 100
#: Where the digest goes in `_question`: no digest looks like it.
_PLACE = "the digest"


def create_token(
    *,
    user: User,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
    workflows: Iterable[str] | None = None,
    confirmed: bool = False,
) -> tuple[ApiToken, str]:
    """A new token and its text, which is nowhere to be had again.

    `workflows` names those it is for; None is all that its user may see.  A token that a token
    makes ends no later than that one, and is revoked with it.

    `confirmed`: whether its maker may stand in for a code of a second factor. The scope
    `decide_high_risk` needs it, whether HOLDPOINT_STEP_UP is on or off.

    Raises InvalidRequest for unknown or missing scopes, `admin` for somebody who is no admin,
    `loosen` for somebody without the permission `loosen_policy`, `decide_high_risk` without
    `confirmed`, unknown workflows, a name of more than 100 characters and an end that has passed.
    """
    wanted = _checked_scopes(user, scopes, confirmed=confirmed)
    if len(name) > _MAX_NAME:
        raise InvalidRequest((Problem("name", "too_long", f"at most {_MAX_NAME} characters"),))
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidRequest((Problem("expires_at", "past", "this moment has passed"),))
    only = _checked_workflows(user, workflows)
    prefix = "hp_" + "".join(secrets.choice(_ALPHABET) for _ in range(8))
    text = f"{prefix}_{secrets.token_urlsafe(32)}"
    with transaction.atomic():
        maker = _locked_maker(user)
        if maker is not None and maker.expires_at is not None:
            expires_at = min(expires_at or maker.expires_at, maker.expires_at)
        token = ApiToken.objects.create(
            user=user,
            name=name,
            prefix=prefix,
            digest=_digest(text),
            scopes=wanted,
            only_workflows=only,
            expires_at=expires_at,
            made_by=maker,
        )
    return token, text


def _locked_maker(user: User) -> ApiToken | None:
    """The token that the user acts with, if it is one, locked until the new token is there.

    A revocation then comes before, and the maker makes nothing, or after, and finds the new token.
    """
    credential = access.credential_of(user)
    if credential is None:
        return None
    # Its row alone: a join would lock the user's row too.
    rows = ApiToken.objects.select_for_update().filter(pk=credential.token_id, revoked_at=None)
    found = rows.first()
    if found is None:
        message = "the token that you call with was revoked"
        raise InvalidRequest((Problem("scopes", "revoked", message),))
    return found


def _checked_scopes(user: User, scopes: Iterable[str], *, confirmed: bool) -> list[str]:
    given = set(scopes)
    unknown = sorted(given.difference(SCOPES))
    if unknown or not given:
        choice = ", ".join(SCOPES)
        what = f"there is no scope {unknown[0]!r}" if unknown else "name at least one scope"
        raise InvalidRequest((Problem("scopes", "unknown_scope", f"{what}; there are: {choice}"),))
    if "admin" in given and access.ADMIN not in access.roles_of(user):
        message = "only an admin's token may have the scope 'admin'"
        raise InvalidRequest((Problem("scopes", "not_admin", message),))
    if access.LOOSEN in given and not user.has_perm(access.LOOSEN_POLICY):
        message = "the scope 'loosen' needs the permission loosen_policy, which you do not have"
        raise InvalidRequest((Problem("scopes", "may_not_loosen", message),))
    if step_up.SCOPE in given and not confirmed:
        raise InvalidRequest((Problem("scopes", "step_up", _not_confirmed()),))
    return [scope for scope in SCOPES if scope in given]


def _not_confirmed() -> str:
    """Why the scope of step-up is refused, also while no approval needs it.

    A token outlives the setting: made without a code, it would stand in for codes once they are
    asked for.
    """
    if conf.step_up() == "off":
        return f"HOLDPOINT_STEP_UP is off, so no token needs the scope {step_up.SCOPE!r}"
    return f"confirm with your code first: the scope {step_up.SCOPE!r} stands in for it"


def _checked_workflows(user: User, names: Iterable[str] | None) -> list[int] | None:
    if names is None:
        return None
    given = list(dict.fromkeys(names))
    found = dict(access.workflows_for(user).filter(name__in=given).values_list("name", "pk"))
    missing = [name for name in given if name not in found]
    if missing or not given:
        message = f"there is no workflow {missing[0]!r}" if missing else "name at least one"
        raise InvalidRequest((Problem("workflows", "unknown_workflow", message),))
    return sorted(found.values())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def usable() -> QuerySet[ApiToken]:
    """Tokens that open something now: not revoked, not expired, of an active user."""
    lasting = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
    return ApiToken.objects.filter(lasting, revoked_at__isnull=True, user__is_active=True)


def authenticate_token(text: str, *, reading: bool = False) -> ApiToken | None:
    """The usable token that `text` is, with its user loaded; None for anything else.

    The user sees no more than the token is for, wherever it is handed on to.  For who only reads,
    they bring the names of their groups along: all that is asked about them at this moment.

    Its use is noted, at most once a minute.
    """
    if not _SHAPE.fullmatch(text):
        return None
    sql, parameters = _question()
    digest = _digest(text)
    found = query(sql, [digest if each == _PLACE else each for each in parameters])
    if not found:
        return None
    *values, names = found[0]
    fields = _columns(ApiToken)
    token = ApiToken.from_db(DEFAULT_DB_ALIAS, fields, values[: len(fields)])
    people = get_user_model()
    token.user = people.from_db(DEFAULT_DB_ALIAS, _columns(people), values[len(fields) :])
    if reading:
        access.set_cached_groups(token.user, names)
    if _is_stale(token.last_used_at):
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=Now() - _USE_NOTED_EVERY)
        ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=Now())
    return _limited(token)


@cache
def _question() -> tuple[str, tuple[Any, ...]]:
    """The statement for a digest, which stands at `_PLACE` among the parameters.

    Every request with a token begins with it, and Django takes longer to put it together than
    PostgreSQL to answer it.
    """
    groups = Group.objects.filter(user=OuterRef("user_id")).order_by("name").values("name")
    person = [f"user__{name}" for name in _columns(get_user_model())]
    rows = usable().filter(digest=_PLACE).order_by()
    asked = rows.values_list(*_columns(ApiToken), *person, ArraySubquery(groups))
    return asked.query.sql_with_params()


def _columns(model: type[Model]) -> list[str]:
    return [field.attname for field in model._meta.concrete_fields]


def usable_token(token_id: int) -> ApiToken | None:
    """The token of this id as `authenticate_token` gives it, without noting a use."""
    return _limited(usable().select_related("user").filter(pk=token_id).first())


def _limited(token: ApiToken | None) -> ApiToken | None:
    if token is not None:
        access.limit_to_workflows(token.user, token.only_workflows)
        credential = access.Credential(token.pk, frozenset(token.scopes))
        access.set_credential(token.user, credential)
    return token


def _is_stale(noted: datetime | None) -> bool:
    """Whether its use may have to be noted; the database knows, this spares it the question."""
    return noted is None or timezone.now() - noted > _USE_NOTED_EVERY


def revoke(*, tokens: QuerySet[ApiToken]) -> int:
    """Switch tokens off for good, with the tokens that they made; how many of `tokens` were on."""
    with transaction.atomic():
        ids = set(tokens.values_list("pk", flat=True))
        switched_off = ApiToken.objects.filter(pk__in=ids, revoked_at=None).update(revoked_at=Now())
        known = set(ids)
        while ids:
            made = ApiToken.objects.filter(made_by__in=ids).exclude(pk__in=known)
            ids = set(made.values_list("pk", flat=True))
            known |= ids
            ApiToken.objects.filter(pk__in=ids, revoked_at=None).update(revoked_at=Now())
    return switched_off


def is_over(token: ApiToken) -> bool:
    """Whether a token opens nothing any more; its user is loaded."""
    if token.revoked_at is not None or not token.user.is_active:
        return True
    return token.expires_at is not None and token.expires_at <= timezone.now()


def workflow_names(token: ApiToken) -> list[str] | None:
    """Names of the workflows that a token is for, in order; None for all."""
    if token.only_workflows is None:
        return None
    rows = Workflow.objects.filter(pk__in=token.only_workflows).order_by("name")
    return list(rows.values_list("name", flat=True))
