"""The documents with which a client finds out what the server supports."""

from __future__ import annotations

from typing import Any, Final

from . import groups, users
from .requests import MAX_RESULTS

_CORE: Final = "urn:ietf:params:scim:schemas:core:2.0"
_SUPPORTED, _UNSUPPORTED = {"supported": True}, {"supported": False}
CONFIGURATION: Final[dict[str, Any]] = {
    "schemas": [f"{_CORE}:ServiceProviderConfig"],
    "patch": _SUPPORTED,
    "bulk": {**_UNSUPPORTED, "maxOperations": 0, "maxPayloadSize": 0},
    "filter": {**_SUPPORTED, "maxResults": MAX_RESULTS},
    "changePassword": _UNSUPPORTED,
    "sort": _UNSUPPORTED,
    "etag": _UNSUPPORTED,
    "authenticationSchemes": [
        {
            "type": "oauthbearertoken",
            "name": "API token",
            "description": "A token with the scope scim, as a bearer token.",
            "primary": True,
        }
    ],
}


def _attribute(name: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "multiValued": False,
        "required": False,
        "caseExact": False,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
        **more,
    }


SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    users.SCHEMA: {
        "name": "User",
        "attributes": [
            _attribute("userName", required=True, uniqueness="server", mutability="immutable"),
            _attribute("externalId", caseExact=True),
            _attribute(
                "name",
                "complex",
                subAttributes=[_attribute("givenName"), _attribute("familyName")],
            ),
            _attribute("active", "boolean"),
            _attribute(
                "emails",
                "complex",
                multiValued=True,
                subAttributes=[_attribute("value"), _attribute("primary", "boolean")],
            ),
        ],
    },
    groups.SCHEMA: {
        "name": "Group",
        "attributes": [
            _attribute("displayName", required=True, uniqueness="server", mutability="immutable"),
            _attribute("externalId", caseExact=True),
            _attribute(
                "members",
                "complex",
                multiValued=True,
                subAttributes=[_attribute("value"), _attribute("display", mutability="readOnly")],
            ),
        ],
    },
}
TYPES: Final[dict[str, dict[str, Any]]] = {
    name: {
        "schemas": [f"{_CORE}:ResourceType"],
        "id": name,
        "name": name,
        "endpoint": f"/{name}s",
        "schema": schema,
    }
    for name, schema in (("User", users.SCHEMA), ("Group", groups.SCHEMA))
}


def document(name: str, key: str) -> dict[str, Any] | None:
    """Return a document by the name in its address; `key` names one of a list."""
    if name == "ServiceProviderConfig":
        return None if key else CONFIGURATION
    listed = {"ResourceTypes": TYPES, "Schemas": _schemas()}[name]
    if key:
        return listed.get(key)
    rows = list(listed.values())
    return {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": len(rows),
        "startIndex": 1,
        "itemsPerPage": len(rows),
        "Resources": rows,
    }


def _schemas() -> dict[str, dict[str, Any]]:
    return {
        uri: {"schemas": [f"{_CORE}:Schema"], "id": uri, **schema}
        for uri, schema in SCHEMAS.items()
    }
