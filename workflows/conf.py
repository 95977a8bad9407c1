"""Typed settings of the app, read at access time so that tests can override one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from django.conf import settings


def _value(key: str) -> Any:
    return settings.HOLDPOINT[key]


def lease_seconds() -> float:
    """Duration of a worker's lease without renewal."""
    return float(_value("lease_seconds"))


def lost_claims_limit() -> int:
    """Maximum number of workers that a run may lose in a row (0 in the settings: no limit)."""
    return int(_value("lost_claims_limit")) or 2**31 - 1


def commit_window_seconds() -> float:
    """Results that finish within this time are committed together."""
    return float(_value("commit_window_ms")) / 1000


def checkpoints_kept() -> int:
    """Number of checkpoints that each execution keeps; with 0 it cannot be forked."""
    return int(_value("checkpoints_kept"))


def conversation_messages() -> int:
    """Maximum number of messages, the newest ones, that are loaded of a conversation."""
    return int(_value("conversation_messages"))


def max_replans() -> int:
    return int(_value("max_replans"))


def max_failed_replans() -> int:
    """Maximum number of failed replans of one execution."""
    return int(_value("max_failed_replans"))


def approve_by_timeout() -> bool:
    """Whether a timeout may approve an external action that no approval policy covers."""
    return bool(_value("approve_by_timeout"))


def policy_floor() -> dict[str, Any]:
    """The policy of plans without a workflow; starting a run cannot loosen it."""
    return dict(_value("policy_floor"))


def undo_seconds() -> float:
    """Undo period of decisions on pages, unless the policy sets one."""
    return float(_value("undo_seconds"))


def sweep_seconds() -> float:
    return float(_value("sweep_seconds"))


def catalogue_seconds() -> float:
    """Interval for reading the tool lists of all MCP servers; changes they report come sooner."""
    return float(_value("catalogue_seconds"))


def task_timeout_seconds() -> float:
    """Time limit of a task without a limit of its own."""
    return float(_value("task_timeout_seconds"))


def speculation_window() -> int:
    """Number of the latest decisions about a workflow's results that decide whether to pause."""
    return int(_value("speculation_window"))


def speculation_explore() -> float:
    """Share of holds at which one result is computed whatever the hit rate, 0 to 1."""
    return float(_value("speculation_explore"))


def speculation_memory_seconds() -> float:
    """Maximum age of those hits and misses."""
    return float(_value("speculation_memory_seconds"))


def grant_ceilings() -> dict[str, str]:
    """Group → the largest permission set that its members may grant; "*": all other groups."""
    return dict(_value("grant_ceilings"))


def start_ceilings() -> dict[str, str]:
    """Group → the largest permission set that its members may use in plans; "*": all others."""
    return dict(_value("start_ceilings"))


def sandbox_memory_mb() -> int:
    """Memory limit of one run of code, without the memory of its runtime."""
    return int(_value("sandbox_memory_mb"))


def sandbox_landlock() -> Literal["auto", "on", "off"]:
    """When code is refused without Landlock; see `sandbox.SandboxConfig`."""
    mode: Literal["auto", "on", "off"] = _value("sandbox_landlock")
    return mode


def sandbox_allow_root() -> bool:
    """Whether code may run as root."""
    return bool(_value("sandbox_allow_root"))


def tool_user() -> str:
    """Name of the account of MCP servers over stdio; "" is the account of the product."""
    return str(_value("tool_user"))


def demo_folder() -> Path:
    """Folder of the repository that the demo reads."""
    return Path(_value("home")) / "demo"


def sandbox_root() -> Path:
    """Folder for the temporary folders of runs of code."""
    return Path(_value("sandbox_root"))


def workers() -> int:
    return int(_value("workers"))


def site_url() -> str:
    return str(_value("site_url"))


def step_up() -> str:
    """Approvals that need a second-factor code: "off", "high_risk" or "all"."""
    return str(_value("step_up"))


def step_up_seconds() -> int:
    """How long a confirmation with a code is valid."""
    return int(_value("step_up_seconds"))


def behind_proxy() -> bool:
    """Whether a trusted proxy sets X-Forwarded-Proto and X-Forwarded-For on every request."""
    return bool(_value("behind_proxy"))


def sign_in_failures() -> int:
    """Failures of one account from one address before that combination is locked."""
    return int(_value("sign_in_failures"))


def sign_in_failures_per_address() -> int:
    """Failures from one address, for all accounts, before the address is locked."""
    return int(_value("sign_in_failures_per_address"))


def sign_in_failures_per_account() -> int:
    """Failures of one account from all addresses before unknown addresses are refused."""
    return int(_value("sign_in_failures_per_account"))


def unknown_tokens_per_address() -> int:
    """Unknown API tokens from one address before the answer is 429."""
    return int(_value("unknown_tokens_per_address"))


def requests_per_minute(kind: str) -> int:
    """Limit of one token or person for "any", "start" or "decide"; 0 is none."""
    names = {"start": "starts_per_minute", "decide": "decisions_per_minute"}
    return int(_value(names.get(kind, "requests_per_minute")))


def connections_each() -> int:
    """Open streams and sockets of one token or person in a web process; 0 is no limit."""
    return int(_value("connections_each"))


def gate_wait_seconds() -> float:
    """Time that a held call of a gate waits for a decision before the agent has to ask again."""
    return float(_value("gate_wait_seconds"))


def gate_call_seconds() -> float:
    """Time limit of a call that a gate sends to an MCP server."""
    return float(_value("gate_call_seconds"))


def gate_keep_bytes() -> int:
    """Largest arguments and answer of a gate's call that are kept; 0 keeps digests only."""
    return int(_value("gate_keep_bytes"))


def security_event_keep_days() -> int:
    """Days after which security events are deleted."""
    return int(_value("security_event_keep_days"))


def webhook_allow_loopback() -> bool:
    """Whether webhook endpoints may be on this machine, also with plain http."""
    return bool(_value("webhook_allow_loopback"))


def webhook_allow_hosts() -> frozenset[str]:
    """Allowed webhook endpoints in private networks, as host:port."""
    return frozenset(_value("webhook_allow_hosts"))


def webhook_timeout_seconds() -> float:
    """Time limit of one attempt, from name resolution to the end of the response."""
    return float(_value("webhook_timeout_seconds"))


def webhook_poll_seconds() -> float:
    """Interval in seconds at which the webhook sender polls without a notification."""
    return float(_value("webhook_poll_seconds"))


def webhook_lease_seconds() -> float:
    """Duration of a sender's claim on an endpoint; at least three attempts."""
    return max(float(_value("webhook_lease_seconds")), 3 * webhook_timeout_seconds())


def webhook_concurrency() -> int:
    """Maximum number of parallel attempts of one sender; 0 disables the sender."""
    return int(_value("webhook_concurrency"))


def webhook_backoff_seconds() -> float:
    """Delay after the first failure; doubled with each further one."""
    return float(_value("webhook_backoff_seconds"))


def webhook_max_backoff_seconds() -> float:
    return float(_value("webhook_max_backoff_seconds"))


def webhook_park_after() -> int:
    """Failures in a row after which an endpoint is parked."""
    return int(_value("webhook_park_after"))


def webhook_max_attempts() -> int:
    """Number of attempts after which a delivery fails, while other deliveries succeed."""
    return int(_value("webhook_max_attempts"))


def webhook_rotation_seconds() -> float:
    """How long the old secret signs too after a rotation."""
    return float(_value("webhook_rotation_seconds"))


def webhook_max_endpoints() -> int:
    """Maximum number of endpoints of one user."""
    return int(_value("webhook_max_endpoints"))
