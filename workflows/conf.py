"""Typed settings of the app, read at access time so that tests can override one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from django.conf import settings


def _value(key: str) -> Any:
    return settings.HOLDPOINT[key]


def lease_seconds() -> float:
    """How long a worker's claim lasts without a heartbeat."""
    return float(_value("lease_seconds"))


def lost_claims_limit() -> int:
    """How many workers in a row a run may lose without a recorded step (0 in the settings: any)."""
    return int(_value("lost_claims_limit")) or 2**31 - 1


def slice_seconds() -> float:
    """How long a worker stays with one execution before others get a turn."""
    return float(_value("slice_seconds"))


def commit_window_seconds() -> float:
    """Results that finish within this time are committed together."""
    return float(_value("commit_window_ms")) / 1000


def checkpoints_kept() -> int:
    return int(_value("checkpoints_kept"))


def max_replans() -> int:
    return int(_value("max_replans"))


def max_failed_replans() -> int:
    """How often a planner may find nothing for one execution before nobody may ask it again."""
    return int(_value("max_failed_replans"))


def abandoned_ttl_seconds() -> float:
    """How long an execution waits for an external agent before it is aborted."""
    return float(_value("abandoned_ttl_seconds"))


def policy_floor() -> dict[str, Any]:
    """The policy that plans without a workflow start from; its fields may not be loosened."""
    return dict(_value("policy_floor"))


def undo_seconds() -> float:
    """For how long a decision on a page can be undone where the policy does not say."""
    return float(_value("undo_seconds"))


def sweep_seconds() -> float:
    return float(_value("sweep_seconds"))


def catalogue_seconds() -> float:
    """How often the lists of all MCP servers are read, besides when one tells of a change."""
    return float(_value("catalogue_seconds"))


def task_timeout_seconds() -> float:
    """Time limit of a task that names none."""
    return float(_value("task_timeout_seconds"))


def speculation_window() -> int:
    """How many of a workflow's last results are weighed."""
    return int(_value("speculation_window"))


def speculation_min_hits() -> float:
    """The share of them that has to have been used, 0 to 1."""
    return float(_value("speculation_min_hits"))


def speculation_memory_seconds() -> float:
    """For how long a hit or a miss is weighed."""
    return float(_value("speculation_memory_seconds"))


def speculation_max_age_seconds() -> float:
    """How old a result may be that was worked out ahead."""
    return float(_value("speculation_max_age_seconds"))


def grant_ceilings() -> dict[str, str]:
    """Group → the named set up to which its members grant; "*" stands for every other group."""
    return dict(_value("grant_ceilings"))


def start_ceilings() -> dict[str, str]:
    """Group → the named set up to which its members choose sets in plans; "*" for every other."""
    return dict(_value("start_ceilings"))


def sandbox_memory_mb() -> int:
    """Memory of one run of code, besides what its runtime needs for itself."""
    return int(_value("sandbox_memory_mb"))


def sandbox_landlock() -> Literal["auto", "on", "off"]:
    """When code is refused for want of Landlock: see `sandbox.SandboxConfig`."""
    mode: Literal["auto", "on", "off"] = _value("sandbox_landlock")
    return mode


def sandbox_allow_root() -> bool:
    """Whether code may run in a process of root."""
    return bool(_value("sandbox_allow_root"))


def sandbox_root() -> Path:
    """Where runs of code have their folders."""
    return Path(_value("sandbox_root"))


def workers() -> int:
    return int(_value("workers"))


def site_url() -> str:
    return str(_value("site_url"))


def step_up() -> str:
    """Which approvals a person confirms with a code: "off", "high_risk" or "all"."""
    return str(_value("step_up"))


def step_up_seconds() -> int:
    """How long a confirmation with a code counts."""
    return int(_value("step_up_seconds"))


def behind_proxy() -> bool:
    """Whether a proxy of ours sets X-Forwarded-Proto and X-Forwarded-For on every request."""
    return bool(_value("behind_proxy"))


def sign_in_lock_seconds() -> int:
    """How long a failed sign-in counts, and so how long a lock lasts at most."""
    return int(_value("sign_in_lock_seconds"))


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


def mcp_wait_seconds() -> float:
    """How long a call of the MCP gateway waits for the next stop unless it says otherwise."""
    return float(_value("mcp_wait_seconds"))


def webhook_allow_loopback() -> bool:
    """Whether receivers on this machine may be named, over plain http too."""
    return bool(_value("webhook_allow_loopback"))


def webhook_allow_hosts() -> frozenset[str]:
    """Receivers on private networks, as host:port."""
    return frozenset(_value("webhook_allow_hosts"))


def webhook_timeout_seconds() -> float:
    """How long one try may take, from the name's resolution to the end of the answer."""
    return float(_value("webhook_timeout_seconds"))


def webhook_poll_seconds() -> float:
    """How often the sender looks for news when nothing happens."""
    return float(_value("webhook_poll_seconds"))


def webhook_lease_seconds() -> float:
    """How long a sender's claim on an endpoint lasts; never less than three tries."""
    return max(float(_value("webhook_lease_seconds")), 3 * webhook_timeout_seconds())


def webhook_concurrency() -> int:
    """Tries at the same time of one sender; 0 for no sender."""
    return int(_value("webhook_concurrency"))


def webhook_per_endpoint() -> int:
    """Tries at the same time to one endpoint, each of another execution."""
    return int(_value("webhook_per_endpoint"))


def webhook_backoff_seconds() -> float:
    """The wait after the first failure; it doubles with each one."""
    return float(_value("webhook_backoff_seconds"))


def webhook_max_backoff_seconds() -> float:
    return float(_value("webhook_max_backoff_seconds"))


def webhook_park_after() -> int:
    """Failures in a row after which an endpoint is parked."""
    return int(_value("webhook_park_after"))


def webhook_max_attempts() -> int:
    """Tries after which one delivery is given up, while others get through."""
    return int(_value("webhook_max_attempts"))


def webhook_rotation_seconds() -> float:
    """How long the secret before a rotation goes on signing."""
    return float(_value("webhook_rotation_seconds"))


def webhook_keep_days() -> int:
    """How long finished deliveries are shown."""
    return int(_value("webhook_keep_days"))


def webhook_max_endpoints() -> int:
    """Endpoints of one person."""
    return int(_value("webhook_max_endpoints"))
