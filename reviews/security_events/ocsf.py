"""A security event as a line of JSON in the Open Cybersecurity Schema Framework (OCSF) 1.3.

Sign-ins are Authentication (3002), locks and accounts Account Change (3001), everything else Entity
Management (3004).  What the schema has no attribute for is in `unmapped`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from reviews.models import SecurityEvent
from workflows.common.redaction import mask_secrets

VERSION: Final = "1.3.0"
_CATEGORY: Final = 3  # Identity & Access Management
_ACCOUNT, _AUTHENTICATION, _ENTITY = 3001, 3002, 3004
_CREATE, _READ, _UPDATE, _DELETE, _OTHER = 1, 2, 3, 4, 99
_LOGON, _LOGOFF = 1, 2
_DELETE_ACCOUNT, _LOCK, _MFA_ENABLE, _MFA_DISABLE = 6, 9, 10, 11
_SUCCESS, _FAILURE = 1, 2
_INFORMATIONAL, _LOW, _MEDIUM = 1, 2, 3
Kind = SecurityEvent.Kind


class _Class(NamedTuple):
    """The class of a kind; `entity` is the type of the entity, and the detail that names it."""

    uid: int
    activity: int
    severity: int = _INFORMATIONAL
    status: int = _SUCCESS
    entity: tuple[str, str] = ("", "")


_CLASSES: Final[Mapping[str, _Class]] = {
    Kind.SIGN_IN: _Class(_AUTHENTICATION, _LOGON),
    Kind.SIGN_IN_FAILED: _Class(_AUTHENTICATION, _LOGON, _LOW, _FAILURE),
    Kind.SIGN_IN_LOCKED: _Class(_ACCOUNT, _LOCK, _MEDIUM),
    Kind.SIGN_OUT: _Class(_AUTHENTICATION, _LOGOFF),
    Kind.FACTOR_ADDED: _Class(_ACCOUNT, _MFA_ENABLE, _LOW),
    Kind.FACTOR_REMOVED: _Class(_ACCOUNT, _MFA_DISABLE, _MEDIUM),
    Kind.DECISION: _Class(_ENTITY, _UPDATE, entity=("review", "hold")),
    Kind.DENIED: _Class(_ENTITY, _UPDATE, _MEDIUM, _FAILURE, ("review", "hold")),
    Kind.REVEALED: _Class(_ENTITY, _READ, _LOW, entity=("masked value", "place")),
    Kind.GRANTED: _Class(_ENTITY, _CREATE, _LOW, entity=("grant", "grant")),
    Kind.GRANT_REVOKED: _Class(_ENTITY, _DELETE, entity=("grant", "grant")),
    Kind.TOKEN_CREATED: _Class(_ENTITY, _CREATE, _LOW, entity=("API token", "token")),
    Kind.TOKEN_REVOKED: _Class(_ENTITY, _DELETE, entity=("API token", "token")),
    Kind.CLIENT_REGISTERED: _Class(_ENTITY, _CREATE, _LOW, entity=("OAuth client", "client")),
    Kind.CLIENT_DELETED: _Class(_ENTITY, _DELETE, entity=("OAuth client", "client")),
    Kind.WORKFLOW_SAVED: _Class(_ENTITY, _UPDATE, entity=("workflow", "workflow")),
    Kind.RULES_PUBLISHED: _Class(_ENTITY, _UPDATE, _LOW, entity=("review rules", "workflow")),
    Kind.RETENTION_SET: _Class(_ENTITY, _UPDATE, _LOW, entity=("retention policy", "subject")),
    Kind.RETENTION_DELETED: _Class(_ENTITY, _DELETE, _LOW, entity=("retention policy", "subject")),
    Kind.LEGAL_HOLD_PLACED: _Class(_ENTITY, _CREATE, entity=("legal hold", "legal_hold")),
    Kind.LEGAL_HOLD_LIFTED: _Class(_ENTITY, _DELETE, _LOW, entity=("legal hold", "legal_hold")),
    Kind.RUNS_ERASED: _Class(_ENTITY, _DELETE, _LOW, entity=("retention entry", "entry")),
}
#: Action of an entry of the admin's log → activities of Entity Management and of Account Change.
_CHANGES: Final = {
    1: (_CREATE, _CREATE),
    2: (_UPDATE, _OTHER),
    3: (_DELETE, _DELETE_ACCOUNT),
}


def line(event: SecurityEvent) -> bytes:
    """Return the event as one line of JSON; secrets are masked."""
    return json.dumps(fields(event), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def fields(event: SecurityEvent) -> dict[str, Any]:
    """Return the event's attributes of OCSF."""
    details = _masked(event.details)
    kind = _class_of(event, details)
    actor = mask_secrets(event.actor)
    made: dict[str, Any] = {
        "metadata": {
            "version": VERSION,
            "product": {"name": "Holdpoint", "vendor_name": "Holdpoint"},
            "uid": str(event.pk),
            "sequence": event.position,
            "event_code": event.kind,
        },
        "time": int(event.at.timestamp() * 1000),
        "category_uid": _CATEGORY,
        "class_uid": kind.uid,
        "activity_id": kind.activity,
        "type_uid": kind.uid * 100 + kind.activity,
        "severity_id": kind.severity,
        "status_id": kind.status,
        "message": event.get_kind_display(),
        "unmapped": details,
    }
    if event.address:
        made["src_endpoint"] = {"ip": event.address}
    if kind.uid == _ENTITY:
        type_, key = kind.entity
        made["entity"] = {"type": type_, "uid": str(details.get(key, ""))}
        made["actor"] = {"user": {"name": actor or "system"}}
    elif event.kind == Kind.CHANGED:
        made["user"] = {"uid": str(details["object"])}
        made["actor"] = {"user": {"name": actor}}
    else:
        made["user"] = {"name": actor or details.get("owner") or "unknown"}
        made["service"] = {"name": "Holdpoint"}
    return made


def _class_of(event: SecurityEvent, details: Mapping[str, Any]) -> _Class:
    if event.kind != Kind.CHANGED:
        return _CLASSES[event.kind]
    entity, account = _CHANGES.get(details["action"], (_OTHER, _OTHER))
    if details["model"] == "auth.user":
        return _Class(_ACCOUNT, account, _LOW)
    return _Class(_ENTITY, entity, _LOW, entity=(details["model"], "object"))


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask_secrets(value)
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    return value
