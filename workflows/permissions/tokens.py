"""Create, authenticate and revoke API tokens.

A token reads `hp_<8 letters and digits>_<43 characters>`: a prefix that may be shown, and 256
random bits.  Only its SHA-256 is stored, so a copy of the database contains no usable token.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from oauth2_provider.models import get_grant_model, get_refresh_token_model

from workflows import conf
from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.actors import Actor
from workflows.executions import access
from workflows.executions.validation import InvalidRequest
from workflows.models import ApiToken, Gate, SecurityEvent, Workflow
from workflows.security_events.services import record_security_event

from . import step_up

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from oauth2_provider.models import AbstractApplication

#: `ask` is for agents that only ask for approvals, `gate` for those that call tools of MCP gates.
#: `admin` requires an admin, `loosen` the
#: permission `loosen_policy`; agents do not get `decide` or `loosen` by default.
#: `decide_high_risk` replaces the confirmation code (HOLDPOINT_STEP_UP).
SCOPES = ("read", "ask", "gate", "run", "decide", step_up.SCOPE, access.LOOSEN, "admin")
_SHAPE = re.compile(r"hp_[A-Za-z0-9]{8}_[A-Za-z0-9_-]{43}")
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#: Precision of `last_used_at`, so that a busy token does not write with every request.
_USE_NOTED_EVERY = timedelta(minutes=1)
_MAX_NAME = 100


def create_token(
    *,
    user: User,
    name: str,
    scopes: Iterable[str],
    expires_at: datetime | None = None,
    workflows: Iterable[str] | None = None,
    gates: Iterable[str] | None = None,
    confirmed: bool = False,
) -> tuple[ApiToken, str]:
    """Create a token; returns it with its text, which is not stored.

    `workflows` names the workflows that the token is limited to; None means no limit.  `gates`
    names the MCP gates that a token with no other scope than `gate` is limited to.  A token that
    is created with another token ends no later than that one, and is revoked with it.

    `confirmed` says that the user has confirmed with a second factor, which the scope
    `decide_high_risk` requires whether HOLDPOINT_STEP_UP is on or off.

    Raises InvalidRequest for missing or unknown scopes, for scopes that the user may not give, for
    unknown workflows or gates, a name of more than 100 characters and an `expires_at` in the past.
    """
    wanted = _checked_scopes(user, scopes, confirmed=confirmed)
    if len(name) > _MAX_NAME:
        raise InvalidRequest((Problem("name", "too_long", f"at most {_MAX_NAME} characters"),))
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidRequest((Problem("expires_at", "past", "this moment has passed"),))
    only = _checked_workflows(user, workflows)
    only_gates = _checked_gates(wanted, gates)
    text = new_text()
    with transaction.atomic():
        maker = _locked_maker(user)
        if maker is not None and maker.expires_at is not None:
            expires_at = min(expires_at or maker.expires_at, maker.expires_at)
        token = ApiToken.objects.create(
            user=user,
            name=name,
            prefix=_prefix_of(text),
            digest=digest_of(text),
            scopes=wanted,
            only_workflows=only,
            only_gates=only_gates,
            expires_at=expires_at,
            made_by=maker,
        )
        _record(SecurityEvent.Kind.TOKEN_CREATED, token, actor=user)
    return token, text


def new_text() -> str:
    """Return the text of a new token."""
    prefix = "".join(secrets.choice(_ALPHABET) for _ in range(8))
    return f"hp_{prefix}_{secrets.token_urlsafe(32)}"


def _prefix_of(text: str) -> str:
    return text[:11]


class Revoked(Exception):
    """The token was revoked, so its client gets no further one."""


def store_oauth_token(
    *,
    user: User,
    client: AbstractApplication,
    family: UUID,
    text: str,
    scopes: Iterable[str],
    gates: Iterable[str] | None,
    code: str | None,
    expires_at: datetime,
) -> None:
    """Store an access token of an OAuth client; a refreshed one replaces the one before.

    `family` is the same for all tokens that follow from one consent; `code` is the authorization
    code that the first one was given for.  A token for `gates` has only the scope `gate`.

    Raises InvalidRequest for scopes that the user may not give and for unknown gates, Revoked for
    a family that was revoked, and IntegrityError for a code that has a token.
    """
    wanted = _checked_scopes(user, scopes, confirmed=False)
    if gates is not None:
        wanted = [scope for scope in wanted if scope == "gate"]
    changes = {
        "prefix": _prefix_of(text),
        "digest": digest_of(text),
        "scopes": wanted,
        "only_gates": _checked_gates(wanted, gates),
        "expires_at": expires_at,
    }
    same = ApiToken.objects.select_for_update(of=("self",)).filter(oauth_family=family)
    known = same.first()
    if known is None:
        token = ApiToken.objects.create(
            user=user,
            name=(client.name or client.client_id)[:_MAX_NAME],
            oauth_client=client,
            oauth_family=family,
            oauth_code_digest=_code_digest(code) if code else None,
            **changes,
        )
        _record(SecurityEvent.Kind.TOKEN_CREATED, token, actor=user)
        return
    if known.revoked_at is not None:
        raise Revoked
    ApiToken.objects.filter(pk=known.pk).update(**changes)


def end_oauth_family(family: UUID) -> None:
    """End the API token of a consent that its client gave back."""
    with transaction.atomic():
        _switch_off(ApiToken.objects.filter(oauth_family=family), by=None)


def revoke_oauth_code(code: str) -> None:
    """Revoke the tokens that an authorization code was exchanged for."""
    revoke(tokens=ApiToken.objects.filter(oauth_code_digest=_code_digest(code)))


def _code_digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _locked_maker(user: User) -> ApiToken | None:
    """Return the token that the user acts with, if any, locked until the new token is stored.

    A concurrent revocation comes before, and no token is created, or after, and includes it.
    """
    credential = access.credential_of(user)
    if credential is None:
        return None
    # No join, which would lock the user's row too.
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
    """Return why the scope for step-up is refused.

    It is refused also while HOLDPOINT_STEP_UP is off: the token would outlive the setting and
    replace codes that are required later.
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


def _checked_gates(scopes: list[str], names: Iterable[str] | None) -> list[int] | None:
    if names is None:
        return None
    given = list(dict.fromkeys(names))
    if scopes != ["gate"]:
        message = "a token that is limited to gates has the scope 'gate' and no other"
        raise InvalidRequest((Problem("gates", "other_scopes", message),))
    found = dict(Gate.objects.filter(name__in=given).values_list("name", "pk"))
    missing = [name for name in given if name not in found]
    if missing or not given:
        message = f"there is no gate {missing[0]!r}" if missing else "name at least one"
        raise InvalidRequest((Problem("gates", "unknown_gate", message),))
    return sorted(found.values())


def digest_of(text: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def usable() -> QuerySet[ApiToken]:
    """Return the valid tokens: not revoked, not expired, of an active user."""
    lasting = Q(expires_at__isnull=True) | Q(expires_at__gt=Now())
    return ApiToken.objects.filter(lasting, revoked_at__isnull=True, user__is_active=True)


def authenticate_token(text: str, *, reading: bool = False) -> ApiToken | None:
    """Return the valid token with this text, with its user loaded; None if there is none.

    The user carries the token's limits.  With `reading`, the user carries cached group names too.
    The use is recorded at most once a minute.
    """
    if not _SHAPE.fullmatch(text):
        return None
    token = usable().select_related("user").filter(digest=digest_of(text)).first()
    if token is None:
        return None
    if reading:
        access.cache_groups(token.user)
    _record_uses([token])
    return _limited(token)


def usable_token(token_id: int) -> ApiToken | None:
    """Return a valid token by id, like `authenticate_token`, without recording a use."""
    token = usable().select_related("user").filter(pk=token_id).first()
    return None if token is None else _limited(token)


def user_of(actor: Actor) -> User | None:
    """Return the user of an actor with the rights that they have now, limited by their token.

    None if the account is gone or inactive, or if the token is no longer valid.
    """
    if actor.token is not None:
        token = usable_token(actor.token)
        return token.user if token is not None and token.user_id == actor.id else None
    person = access.read_user(actor.id) if actor.id is not None else None
    return person if person is not None and person.is_active else None


def usable_tokens(ids: Collection[int]) -> dict[int, ApiToken]:
    """Return the valid tokens among `ids`, with their users, for connections that stay open.

    Their uses are recorded, each at most once a minute.
    """
    if not ids:
        return {}
    found = list(usable().select_related("user").filter(pk__in=ids))
    _record_uses(found)
    return {token.pk: token for token in map(_limited, found)}


def _limited(token: ApiToken) -> ApiToken:
    """Give the token's user the limits of the token."""
    access.limit_to_workflows(token.user, token.only_workflows)
    access.set_credential(token.user, access.Credential(token.pk, frozenset(token.scopes)))
    return token


def _record_uses(tokens: Iterable[ApiToken]) -> None:
    ids = [token.pk for token in tokens if _is_stale(token.last_used_at)]
    if ids:
        stale = Q(last_used_at__isnull=True) | Q(last_used_at__lt=Now() - _USE_NOTED_EVERY)
        ApiToken.objects.filter(stale, pk__in=ids).update(last_used_at=Now())


def _is_stale(noted: datetime | None) -> bool:
    """Whether to update `last_used_at`; the update checks again in the database."""
    return noted is None or timezone.now() - noted > _USE_NOTED_EVERY


def revoke(*, tokens: QuerySet[ApiToken], by: User | None = None) -> int:
    """Revoke tokens and the tokens created with them; returns how many of `tokens` were active.

    `by` is None if a client or a rule of OAuth ends them.
    """
    with transaction.atomic():
        _end_consents(tokens)
        ids = set(tokens.values_list("pk", flat=True))
        switched_off = _switch_off(ApiToken.objects.filter(pk__in=ids), by=by)
        known = set(ids)
        while ids:
            made = ApiToken.objects.filter(made_by__in=ids).exclude(pk__in=known)
            ids = set(made.values_list("pk", flat=True))
            known |= ids
            _switch_off(ApiToken.objects.filter(pk__in=ids), by=by)
    return switched_off


def _switch_off(tokens: QuerySet[ApiToken], *, by: User | None) -> int:
    """Revoke those of these tokens that are not revoked, in the caller's transaction."""
    rows = tokens.filter(revoked_at=None).select_related("user", "oauth_client")
    active = list(rows.select_for_update(of=("self",)).order_by("pk"))
    ApiToken.objects.filter(pk__in=[each.pk for each in active]).update(revoked_at=Now())
    for token in active:
        _record(SecurityEvent.Kind.TOKEN_REVOKED, token, actor=by or "")
    return len(active)


def _record(kind: SecurityEvent.Kind, token: ApiToken, *, actor: User | str) -> None:
    client = token.oauth_client
    record_security_event(
        kind=kind,
        actor=actor,
        subject=f"token:{token.prefix}",
        details={
            "name": token.name,
            "owner": token.user.get_username(),
            "scopes": token.scopes,
            "oauth_client": client.client_id if client is not None else None,
        },
    )


def _end_consents(tokens: QuerySet[ApiToken]) -> None:
    """End the refresh tokens and unused codes of the tokens that OAuth clients have.

    Before the API tokens themselves: a refresh locks its refresh token first too.  Tokens created
    with another token belong to no client.
    """
    consents = tokens.exclude(oauth_family=None)
    for family, client, user in consents.values_list("oauth_family", "oauth_client", "user"):
        get_grant_model().objects.filter(application=client, user=user).delete()
        get_refresh_token_model().revoke_family(family)


def end_oauth_codes(user: User) -> None:
    """End the codes that OAuth clients of a user have not exchanged yet."""
    get_grant_model().objects.filter(user=user).delete()


def is_over(token: ApiToken) -> bool:
    """Whether a token is no longer valid; its user is loaded."""
    if token.revoked_at is not None or not token.user.is_active:
        return True
    return token.expires_at is not None and token.expires_at <= timezone.now()


def workflow_names(token: ApiToken) -> list[str] | None:
    """Return the names of the workflows that a token is limited to; None if it is not."""
    if token.only_workflows is None:
        return None
    rows = Workflow.objects.filter(pk__in=token.only_workflows).order_by("name")
    return list(rows.values_list("name", flat=True))


def gate_names(token: ApiToken) -> list[str] | None:
    """Return the names of the gates that a token is limited to; None if it is not."""
    if token.only_gates is None:
        return None
    rows = Gate.objects.filter(pk__in=token.only_gates).order_by("name")
    return list(rows.values_list("name", flat=True))
