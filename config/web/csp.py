"""The Content-Security-Policy of all pages: own files only, nothing inline."""

from typing import Any

from csp.constants import NONE, SELF


def policy(websockets: list[str]) -> dict[str, Any]:
    """django-csp's setting; `websockets` are the ws:// and wss:// origins a page may connect to."""
    return {
        "DIRECTIVES": {
            "default-src": [SELF],
            "script-src": [SELF],
            "style-src": [SELF],
            "img-src": [SELF, "data:"],
            "font-src": [SELF],
            "connect-src": [SELF, *websockets],
            "object-src": [NONE],
            "base-uri": [NONE],
            "frame-ancestors": [NONE],
            "form-action": [SELF],
        }
    }
