"""Codec of the AuthZEN Access Request and Approval Profile, draft 1: approvals are its tasks.

An evaluation is denied with a binding token: a JWT (Ed25519) that repeats subject, resource, action
and context, and names the person who asked.  The access request returns it, and becomes an
approval whose arguments are those values; nothing else is stored.  Task and approval ids are the
signed id of the approval.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from workflows import conf
from workflows.common.redaction import mask_secrets
from workflows.engine.bounded_json import canonical
from workflows.engine.risk import RISKS
from workflows.models import Approval
from workflows.models.approvals import ApprovalStatus

from .selectors import approval_body

if TYPE_CHECKING:
    from django.contrib.auth.models import User

CAPABILITY: Final = "urn:openid:authzen:capability:access-request"
PROBLEM: Final = "urn:openid:authzen:access-request:error:"
#: How long a denial can be turned into an access request.
BINDING_LIFETIME: Final = timedelta(minutes=10)
#: Members of `context` that say nothing about what is allowed; `time` differs in each request.
_NOT_BOUND: Final = frozenset(
    {"access_request", "approval", "evaluated_at", "evaluation_id", "reason", "time"}
)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.:/@\-]")
_ALGORITHM: Final = "EdDSA"
_STATUSES: Final = {
    ApprovalStatus.APPROVED: "approved",
    ApprovalStatus.COMPLETED: "approved",
    ApprovalStatus.REJECTED: "denied",
    ApprovalStatus.EXPIRED: "expired",
    ApprovalStatus.CANCELLED: "cancelled",
}


class AccessRequestError(Exception):
    """An error of the profile; `kind` is the end of its problem type."""

    STATUSES: Final = {
        "not_requestable": 400,
        "expired_denial": 410,
        "invalid_denial_binding": 400,
        "duplicate_request": 409,
        "unknown_task": 404,
        "invalid_task_state": 409,
    }

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message, self.status = kind, message, self.STATUSES[kind]


# --- subject, resource, action --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Access:
    """What is evaluated: subject, resource, action, and the part of the context that binds."""

    subject: Mapping[str, Any]
    resource: Mapping[str, Any]
    action: Mapping[str, Any]
    context: Mapping[str, Any]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Access:
        context = body.get("context") or {}
        bound = {name: value for name, value in context.items() if name not in _NOT_BOUND}
        return cls(body["subject"], body["resource"], body["action"], bound)

    @property
    def values(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "resource": self.resource,
            "action": self.action,
            "context": self.context,
        }

    def equals(self, other: Access) -> bool:
        """Whether all members are equal, also the actor of the subject."""
        return canonical(self.values) == canonical(other.values)

    @property
    def states_actor(self) -> bool:
        return "act" in (self.subject.get("properties") or {})

    def without_actor(self) -> Access:
        """Return a copy without `subject.properties.act`."""
        subject = dict(self.subject)
        properties = dict(subject.pop("properties", None) or {})
        properties.pop("act", None)
        if properties:
            subject["properties"] = properties
        return replace(self, subject=subject)

    @property
    def name(self) -> str:
        """The name that approval policies match: the action's, or that of a called tool."""
        is_tool = self.resource["type"] == "tool"
        name = _NOT_IN_NAMES.sub("_", self.resource["id"] if is_tool else self.action["name"])
        return (name if name[0].isalnum() or name[0] == "_" else f"_{name}")[:199]

    @property
    def title(self) -> str:
        # Masked before the title is cut: a part of a secret may no longer look like one.
        text = f"{self.action['name']}: {self.resource['type']} {self.resource['id']}"
        return mask_secrets(f"{text} for {self.subject['id']}")[:200]


def request_of(
    access: Access, *, evaluation_id: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the request for an approval; `body` is the access request, if there is one."""
    body = body or {}
    client = body.get("client") or {}
    actor = client.get("actor") or (access.subject.get("properties") or {}).get("act") or {}
    agent = client.get("name") or client.get("id") or actor.get("id") or actor.get("sub")
    source = client.get("source") or {}
    risk = (access.action.get("properties") or {}).get("risk")
    arguments = {name: value for name, value in access.values.items() if value}
    if body.get("requested_access"):
        arguments["requested_access"] = body["requested_access"]
    about = [str((body.get("context") or {}).get("business_justification") or "")[:40_000]]
    asked: dict[str, Any] = {
        "action": {"name": access.name, "title": access.title, "arguments": arguments},
        # An approval is valid for exactly what was denied.
        "editable": False,
        "context": "\n\n".join(filter(None, [*about, f"Evaluation `{evaluation_id}`"])),
        "requested_by": {
            "agent": str(agent or "")[:200],
            "session": str(source.get("session_id") or "")[:200],
            "url": str(source.get("external_url") or "")[:2000],
        },
    }
    if risk in RISKS:
        asked["risk"] = risk
    if body.get("callback"):
        asked["callback"] = {"url": body["callback"].get("endpoint") or ""}
    return asked


# --- the binding token ----------------------------------------------------------------------------


def denial_of(access: Access, user: User) -> dict[str, Any]:
    """Return the context of a denial that `user` can turn into an access request."""
    now = timezone.now().replace(microsecond=0)
    expires = now + BINDING_LIFETIME
    evaluation_id = f"eval_{uuid.uuid4().hex}"
    claims = {
        "iss": issuer(),
        "aud": _url("authzen-requests"),
        "sub": str(user.pk),
        "iat": now,
        "exp": expires,
        "jti": uuid.uuid4().hex,
        "denial_expires_at": expires.isoformat(),
        "evaluation_id": evaluation_id,
        "binding_context_members": sorted(access.context),
        **access.values,
    }
    key = _keys()[0]
    token = jwt.encode(claims, key, _ALGORITHM, headers={"kid": _key_id(key)})
    return {
        "evaluation_id": evaluation_id,
        "evaluated_at": now.isoformat(),
        "reason": "approval_required",
        "access_request": {
            "endpoint": _url("authzen-requests"),
            "expires_at": expires.isoformat(),
            "binding_token": token,
            "display": {"title": access.title},
        },
    }


def verified_denial(body: Mapping[str, Any], user: User) -> tuple[Access, dict[str, Any]]:
    """Return what was denied to `user`, with the claims; raise AccessRequestError.

    The access request `body` names the same subject, resource, action and context.
    """
    denial = body.get("denial")
    if not isinstance(denial, Mapping):
        message = "An access request needs the denial that it is about."
        raise AccessRequestError("not_requestable", message)
    claims = _claims(denial.get("binding_token"))
    if claims["sub"] != str(user.pk):
        raise _unbound("The binding token was given to another person.")
    for name, claim in (("expires_at", "denial_expires_at"), ("evaluation_id", "evaluation_id")):
        if denial.get(name, claims[claim]) != claims[claim]:
            raise _unbound(f"denial.{name} is not the one of the denial.")
    if "expires_at" not in denial:
        raise _unbound("denial.expires_at is missing.")
    denied = Access.of(claims)
    context = body.get("context") or {}
    # A request may add members to the context, and may not change or remove any.
    bound = {name: value for name, value in context.items() if name in denied.context}
    asked, expected = Access.of({**body, "context": bound}), denied
    if not asked.states_actor:
        # The request may state the actor as its client; the approval keeps that of the denial.
        asked, expected = asked.without_actor(), denied.without_actor()
    if not expected.equals(asked):
        raise _unbound("Subject, resource, action or context is not the one of the denial.")
    return denied, claims


def _claims(token: Any) -> dict[str, Any]:
    if not isinstance(token, str):
        raise _unbound("denial.binding_token is missing.")
    try:
        key_id = jwt.get_unverified_header(token).get("kid")
        key = next((each for each in _keys() if _key_id(each) == key_id), None)
        if key is None:
            raise _unbound("The binding token is not from this server.")
        claims: dict[str, Any] = jwt.decode(
            token,
            key.public_key(),
            algorithms=[_ALGORITHM],
            audience=_url("authzen-requests"),
            issuer=issuer(),
            options={"require": ["iss", "aud", "sub", "iat", "exp", "jti"]},
        )
    except jwt.ExpiredSignatureError:
        message = "The denial has expired. Evaluate again."
        raise AccessRequestError("expired_denial", message) from None
    except jwt.PyJWTError:
        raise _unbound("The binding token is not valid.") from None
    return claims


def _unbound(message: str) -> AccessRequestError:
    return AccessRequestError("invalid_denial_binding", message)


def _keys() -> list[Ed25519PrivateKey]:
    """Return the signing key and the retired ones, which follow from SECRET_KEY."""
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    seeds = (hashlib.sha256(b"holdpoint.authzen:" + each.encode()).digest() for each in secrets)
    return [Ed25519PrivateKey.from_private_bytes(each) for each in seeds]


def _key_id(key: Ed25519PrivateKey) -> str:
    return hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]


def key_set() -> dict[str, Any]:
    """Return the public keys as a JWK set (RFC 7517)."""
    return {
        "keys": [
            {
                **jwt.algorithms.OKPAlgorithm.to_jwk(key.public_key(), as_dict=True),
                "kid": _key_id(key),
                "use": "sig",
                "alg": _ALGORITHM,
            }
            for key in _keys()
        ]
    }


# --- tasks and approvals --------------------------------------------------------------------------


def task_id(approval_id: str | int) -> str:
    return f"arq_{_signer('task').sign(str(approval_id))}"


def read_task_id(text: str) -> str:
    """Return the approval's id; raise AccessRequestError for an id that was never given."""
    try:
        return _signer("task").unsign(text.removeprefix("arq_"))
    except BadSignature:
        message = "There is no such task, or it is not yours."
        raise AccessRequestError("unknown_task", message) from None


def read_approval_ref(reference: Any) -> str | None:
    """Return the approval's id of `context.approval`, or None if this server did not sign it."""
    text = reference.get("id") if isinstance(reference, Mapping) else None
    try:
        return _signer("approval").unsign(str(text).removeprefix("apr_"))
    except BadSignature:
        return None


def _signer(purpose: str) -> Signer:
    return Signer(sep=".", salt=f"holdpoint.authzen.{purpose}")


def task_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return task and result from the body of an approval."""
    number = task_id(body["id"])
    status = status_of(body)
    display = {"title": body["action"]["title"], "description": body["comment"]}
    links = {"review": body["review_url"]}
    task: dict[str, Any] = {
        "id": number,
        "status": status,
        "status_endpoint": _url("authzen-task", number),
        "display": {name: text for name, text in display.items() if text},
        "links": links,
    }
    if status == "pending":
        links["cancel"] = _url("authzen-cancel", number)
        if body["expires_at"]:
            task["expires_at"] = body["expires_at"].isoformat()
    if status != "approved":
        return {"task": task}
    return {"task": task, "result": {"mode": "reevaluate", "approval": approval_ref(body)}}


def callback_body(approval: Approval) -> dict[str, Any]:
    """Return the members that the profile adds to the webhook that ends an access request.

    The row comes from `with_status`.
    """
    task = task_of(approval_body(approval))["task"]
    handle = {name: task[name] for name in ("id", "status", "status_endpoint")}
    return {**(approval.authzen_callback or {}), "task": handle}


def status_of(body: Mapping[str, Any]) -> str:
    """Return the status of the task; it does not follow what the caller reports afterwards."""
    if body["status"] == ApprovalStatus.FAILED:
        return "approved" if body["result"] else "failed"
    return _STATUSES.get(body["status"], "pending")


def approval_ref(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the reference to an approved approval."""
    return {
        "id": f"apr_{_signer('approval').sign(body['id'])}",
        "approved_at": _decided_at(body).isoformat(),
        "approved_until": approved_until(body).isoformat(),
    }


def approved_until(body: Mapping[str, Any]) -> datetime:
    """Return until when an approval may be used: never longer than was asked for."""
    longest = _decided_at(body) + timedelta(seconds=conf.authzen_approval_seconds())
    wanted = requested_until(body["arguments"].get("requested_access"))
    return min(longest, wanted) if wanted else longest


def requested_until(requested: Any) -> datetime | None:
    """Return `requested_until` of the requested access; raises ValueError if it is no time."""
    text = requested.get("requested_until") if isinstance(requested, Mapping) else None
    if text is None:
        return None
    found = parse_datetime(text) if isinstance(text, str) else None
    if found is None or timezone.is_naive(found):
        raise ValueError("must be a time with its zone, such as 2026-05-01T00:15:00Z")
    return found


def _decided_at(body: Mapping[str, Any]) -> datetime:
    found: datetime = body["decided_at"] or body["created_at"]
    return found


# --- metadata -------------------------------------------------------------------------------------


def issuer() -> str:
    return conf.site_url().rstrip("/")


def metadata() -> dict[str, Any]:
    """Return the metadata of the policy decision point."""
    return {
        "policy_decision_point": issuer(),
        "access_evaluation_endpoint": _url("authzen-evaluation"),
        "access_request_endpoint": _url("authzen-requests"),
        "jwks_uri": _url("authzen-keys"),
        "capabilities": [CAPABILITY],
    }


def _url(name: str, *args: str) -> str:
    return issuer() + reverse(name, args=args)
