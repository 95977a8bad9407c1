"""Who may ask for plans: any session; a token only with a scope for it."""

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request


class MayPlan(BasePermission):
    """Signed-in people, and tokens whose ``scopes`` hold ``read`` or ``run``."""

    message = "This token has neither the scope 'read' nor 'run'."
    scopes = frozenset({"read", "run"})

    def has_permission(self, request: Request, view: Any) -> bool:
        """False for anonymous requests and for tokens without a fitting scope."""
        if not (request.user and request.user.is_authenticated):
            return False
        granted = getattr(request.auth, "scopes", None)
        if granted is None or request.method in SAFE_METHODS:
            return True
        return not self.scopes.isdisjoint(granted)
