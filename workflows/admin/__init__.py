"""Admin of workflows, MCP servers and what belongs to them; reviews and runs: reviews.admin."""

from . import (
    approvals,
    calendars,
    definitions,
    gates,
    permissions,
    security_events,
    servers,
    tokens,
    webhooks,
)

__all__ = [
    "approvals",
    "calendars",
    "definitions",
    "gates",
    "permissions",
    "security_events",
    "servers",
    "tokens",
    "webhooks",
]
