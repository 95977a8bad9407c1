"""Typed settings of the app, read at access time so that tests can override one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings


def _value(key: str, default: Any) -> Any:
    return settings.HOLDPOINT.get(key, default)


def undo_seconds() -> float:
    """Undo period of decisions on pages, unless the run's policy sets one."""
    return float(_value("undo_seconds", 5))


def page_size() -> int:
    """Rows of a page: queue, runs, history, tools."""
    return int(_value("page_size", 50))


def answer_link_hours() -> int:
    """Hours for which the link of an e-mail decides without a sign-in; 0 turns the links off."""
    return int(_value("answer_link_hours", 0))


def slack_api_url() -> str:
    """Base address of Slack's Web API."""
    return str(_value("slack_api_url", "https://slack.com/api/"))


def teams_issuer() -> str:
    """Issuer of the Bot connector's tokens, and the audience of the bot's own."""
    return str(_value("teams_issuer", "https://api.botframework.com"))


def teams_openid_url() -> str:
    """Address of the OpenID metadata of the Bot connector."""
    default = "https://login.botframework.com/v1/.well-known/openidconfiguration"
    return str(_value("teams_openid_url", default))


def teams_login_url() -> str:
    """Base address of the service that gives bots access tokens."""
    return str(_value("teams_login_url", "https://login.microsoftonline.com/"))


def teams_service_url() -> str:
    """Base address of the connectors that a bot sends messages to."""
    return str(_value("teams_service_url", "https://smba.trafficmanager.net/"))


def notice_gather_seconds() -> float:
    """Notices within this time are sent as one message."""
    return float(_value("notice_gather_seconds", 10))


def notice_pause_seconds() -> float:
    """Minimum time between two messages to one user or chat."""
    return float(_value("notice_pause_seconds", 60))


def notice_backoff_seconds() -> float:
    """Delay after the first failure; doubled with each further one, up to an hour."""
    return float(_value("notice_backoff_seconds", 5))


def notice_max_attempts() -> int:
    """Number of attempts after which a message fails."""
    return int(_value("notice_max_attempts", 12))


def retention_hours() -> tuple[int, int] | None:
    """Hours (UTC) from and until which old runs are erased; None for the whole day."""
    hours: tuple[int, int] | None = _value("retention_hours", None)
    return hours


def heads_file() -> Path | None:
    """File to which signed heads of the audit log are appended, or None."""
    path = _value("audit_heads_file", None)
    return Path(path) if path else None


def heads_seconds() -> float:
    """Interval between two heads."""
    return float(_value("audit_heads_seconds", 55))


def heads_to_log() -> bool:
    """Whether heads are also written to the log."""
    return bool(_value("audit_heads_log", default=False))


def heads_url() -> str:
    """URL to which heads are posted, or ""."""
    return str(_value("audit_heads_url", ""))


def audit_key() -> str:
    """Secret from which the key of the audit log is derived; "" disables signing."""
    return str(_value("audit_key", ""))


def audit_retired_keys() -> tuple[str, ...]:
    """Earlier public keys of the audit log."""
    return tuple(_value("audit_retired_keys", ()))


def siem_file() -> Path | None:
    """File to which security events are appended, or None."""
    path = _value("siem_file", "")
    return Path(path) if path else None


def siem_syslog() -> str:
    """Syslog server for security events, as tcp://host:port or tls://host:port, or ""."""
    return str(_value("siem_syslog", ""))


def siem_url() -> str:
    """URL to which security events are posted, or ""."""
    return str(_value("siem_url", ""))


def siem_authorization() -> str:
    """Header `Authorization` of these requests, or ""."""
    return str(_value("siem_authorization", ""))


def siem_keep_days() -> int:
    """Retention of security events."""
    return int(_value("siem_keep_days", 90))
