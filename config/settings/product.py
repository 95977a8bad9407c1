"""Product settings: `settings.HOLDPOINT`, each set by the environment variable `HOLDPOINT_<KEY>`.

The apps read them through their `conf.py` at access time, so tests can override them.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from config.paths import BASE_DIR
from config.settings.env import (
    env_bool,
    env_choice,
    env_float,
    env_hours,
    env_int,
    env_json,
    env_list,
    env_path,
    env_secret,
    env_str,
)

AUDIT_KEY_LENGTH = 32
PUBLIC_KEY_BYTES = 32
PERMISSION_SETS = ("minimal", "readonly", "filesystem", "network-api", "mcp-standard", "trusted")

#: The largest permission set that members of a group may grant; `*` is every other group.
GRANT_CEILINGS = ("reviewer:mcp-standard", "admin:trusted", "*:mcp-standard")
#: The largest permission set that members of a group may choose for a task in a plan.
START_CEILINGS = ("admin:trusted", "operator:trusted", "*:mcp-standard")

#: People do not approve plans that they started.
POLICY_FLOOR = {"four_eyes": True}


def product_settings(*, home: Path, site_url: str) -> dict[str, Any]:
    """Return the product settings; values are in seconds unless the key names a unit."""
    return {
        "home": home,
        "site_url": site_url,
        **_engine(),
        **_speculation(),
        **_tools(home),
        **_remote(),
        **_sandbox(home),
        **_graph(),
        **_desk(),
        **_audit(home),
        **_siem(),
        **_notices(),
        **_limits(),
        **_demo(),
        **_models(),
        **_webhooks(),
        **_operations(),
        # Dotted paths through which workflows calls the apps above it.
        # Parts of the sweeper's round: in every round; while the undo time, deadline, reminder or
        # escalation step of a hold is due; until they find nothing, and then now and then.
        "sweep_hooks": [
            "reviews.notifications.sweeper_hooks.claims_ended",
            "reviews.backtests.jobs.enqueue_unclaimed",
            "config.auth.sign_in_limits.mail_alerts",
        ],
        "timer_hooks": [
            "reviews.decisions.withdrawal.settle_due",
            "reviews.decisions.services.expire_due",
            "reviews.notifications.sweeper_hooks.remind_due",
        ],
        "housekeeping_hooks": [
            "workflows.executions.recovery.enqueue_learning",
            "workflows.speculation.store.clean_up",
            "reviews.retention.services.erase_due",
            "workflows.mcp_gate.sweeper_hooks.settle_lost",
            "workflows.metrics.collector.count_events",
        ],
        "deletion_hooks": [
            "workflows.executions.idempotency.forget_old",
            "reviews.queue.presence.forget_old",
            "reviews.notifications.sweeper_hooks.forget_old",
            "reviews.security_events.exports.delete_old",
            "workflows.webhooks.services.delete_old_deliveries",
            "workflows.mcp_gate.sweeper_hooks.delete_old",
            "workflows.permissions.unknown_token_limit.forget_old",
            "config.auth.sign_in_limits.forget_old",
            "config.auth.oauth.clients.clean_up_hourly",
        ],
        # Threads of the sweeper's process; each takes an event that stops it.
        "sweep_threads": [
            "reviews.notifications.journal_consumer.run",
            "reviews.notifications.sender.run_mail",
            "reviews.notifications.sender.run_chat",
            "reviews.slack.sender.run",
            "reviews.audit.chain_anchors.run",
            "reviews.security_events.exports.run",
            "workflows.remote.watcher.run",
        ],
        "decision_service": "reviews.decisions.services.decide_command",
        # What people decided about earlier calls of a tool: for agents, and for suggested plans.
        "episodes": "reviews.decisions.episodes.episodes",
        "tool_memory": "reviews.decisions.episodes.memory_of_tools",
        # How the API of executions shows payloads: masked, revealed, and a checkpoint's context.
        "execution_view": "reviews.runs.execution_view.shown_execution",
        "execution_revealed": "reviews.runs.execution_view.revealed_execution",
        "context_view": "reviews.runs.execution_view.shown_context",
        # How people who may not change a workflow see its plan and default inputs: masked.
        "definition_view": "reviews.planner.definition_view.shown_definition",
    }


def _engine() -> dict[str, Any]:
    return {
        # Policy that plans without a workflow may not loosen; see workflows.engine.policy_floor.
        "policy_floor": env_json("HOLDPOINT_POLICY_FLOOR", POLICY_FLOOR),
        "lease_seconds": env_int("HOLDPOINT_LEASE_SECONDS", 30, minimum=2),
        # A run that lost so many workers in a row without a recorded step ends as FAILED.
        "lost_claims_limit": env_int("HOLDPOINT_LOST_CLAIMS_LIMIT", 3, minimum=0),
        "slice_seconds": env_float("HOLDPOINT_SLICE_SECONDS", 2.0, minimum=0),
        "commit_window_ms": env_int("HOLDPOINT_COMMIT_WINDOW_MS", 50, minimum=0, maximum=10_000),
        # 0 stores none: then runs cannot be forked.
        "checkpoints_kept": env_int("HOLDPOINT_CHECKPOINTS_KEPT", 5, minimum=0),
        # The newest messages that an agent gets, and that a review shows.
        "conversation_messages": env_int("HOLDPOINT_CONVERSATION_MESSAGES", 200, minimum=1),
        "max_replans": env_int("HOLDPOINT_MAX_REPLANS", 3, minimum=0),
        # Whether an agent may ask that a timeout approves an action that no policy covers.
        "approve_by_timeout": env_bool("HOLDPOINT_APPROVE_BY_TIMEOUT", default=False),
        "max_failed_replans": env_int("HOLDPOINT_MAX_FAILED_REPLANS", 10, minimum=1),
        "abandoned_ttl_seconds": env_int("HOLDPOINT_ABANDONED_TTL_SECONDS", 3600, minimum=1),
        "sweep_seconds": env_float("HOLDPOINT_SWEEP_SECONDS", 3.0, minimum=0.1),
        "task_timeout_seconds": env_int("HOLDPOINT_TASK_TIMEOUT_SECONDS", 300, minimum=1),
        "workers": env_int("HOLDPOINT_WORKERS", 2, minimum=1, maximum=256),
    }


def _speculation() -> dict[str, Any]:
    return {
        # Minimum share of hits among the newest decisions of a workflow.
        "speculation_window": env_int("HOLDPOINT_SPECULATION_WINDOW", 20, minimum=1, maximum=1000),
        "speculation_min_hits": env_float(
            "HOLDPOINT_SPECULATION_MIN_HITS", 0.4, minimum=0, maximum=1
        ),
        # Share of holds at which one result is computed whatever the hit rate, to measure it.
        "speculation_explore": env_float(
            "HOLDPOINT_SPECULATION_EXPLORE", 0.1, minimum=0, maximum=1
        ),
        # How long a hit or a miss counts.
        "speculation_memory_seconds": env_int(
            "HOLDPOINT_SPECULATION_MEMORY_SECONDS", 86_400, minimum=1
        ),
        # Older results are not used.
        "speculation_max_age_seconds": env_int(
            "HOLDPOINT_SPECULATION_MAX_AGE_SECONDS", 3600, minimum=1
        ),
    }


def _tools(home: Path) -> dict[str, Any]:
    return {
        "tool_modules": env_list("HOLDPOINT_TOOL_MODULES"),  # besides the built-in ones
        "file_root": env_path("HOLDPOINT_FILE_ROOT", home / "files"),
        # Account of MCP servers over stdio; workers that run as root can change to it.
        "tool_user": env_str("HOLDPOINT_TOOL_USER", ""),
        "http_allow_hosts": env_list("HOLDPOINT_HTTP_ALLOW_HOSTS"),
        # Services of this machine that a permission may reach, each as host:port; * is any.
        "loopback_targets": env_list("HOLDPOINT_LOOPBACK_TARGETS"),
        "catalogue_seconds": env_float("HOLDPOINT_CATALOGUE_SECONDS", 60.0, minimum=1),
        # Default wait of a call to /mcp for the next pause.
        "mcp_wait_seconds": env_float("HOLDPOINT_MCP_WAIT_SECONDS", 20.0, minimum=0, maximum=55),
        # Wait of a held call to /mcp/gate/ for a decision, and the time limit of a sent call.
        "gate_wait_seconds": env_float(
            "HOLDPOINT_GATE_WAIT_SECONDS", 50.0, minimum=0, maximum=3600
        ),
        "gate_call_seconds": env_float(
            "HOLDPOINT_GATE_CALL_SECONDS", 120.0, minimum=1, maximum=3600
        ),
        "gate_keep_days": env_int("HOLDPOINT_GATE_KEEP_DAYS", 90, minimum=1),
        # Largest arguments and answer of a call that are kept for audits (0: digests only), and
        # the largest answer of a held call, which is kept for its agent.
        "gate_keep_bytes": env_int(
            "HOLDPOINT_GATE_KEEP_BYTES", 65_536, minimum=0, maximum=1_048_576
        ),
        "gate_answer_bytes": env_int(
            "HOLDPOINT_GATE_ANSWER_BYTES", 4_194_304, minimum=65_536, maximum=67_108_864
        ),
    }


def _remote() -> dict[str, Any]:
    """Remote runners; an empty address is off."""
    address = env_str("HOLDPOINT_DASK_SCHEDULER", "")
    files = (
        env_str("HOLDPOINT_DASK_TLS_CA", ""),
        env_str("HOLDPOINT_DASK_TLS_CERT", ""),
        env_str("HOLDPOINT_DASK_TLS_KEY", ""),
    )
    parts = urlsplit(address)
    if address and parts.scheme not in ("tcp", "tls"):
        raise ImproperlyConfigured("HOLDPOINT_DASK_SCHEDULER must start with tcp:// or tls://.")
    if parts.scheme == "tcp" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
        # Anybody who reaches a Dask scheduler without TLS runs code on it and reads the inputs.
        raise ImproperlyConfigured(
            "HOLDPOINT_DASK_SCHEDULER must start with tls:// unless it is on this machine."
        )
    if parts.scheme == "tls" and not all(files):
        raise ImproperlyConfigured(
            "HOLDPOINT_DASK_SCHEDULER with tls:// needs HOLDPOINT_DASK_TLS_CA,"
            " HOLDPOINT_DASK_TLS_CERT and HOLDPOINT_DASK_TLS_KEY."
        )
    return {
        "dask_scheduler": address,
        "dask_tls_files": files if parts.scheme == "tls" else ("", "", ""),
    }


def _sandbox(home: Path) -> dict[str, Any]:
    return {
        "sandbox_root": env_path("HOLDPOINT_SANDBOX_ROOT", home / "sandbox"),
        "sandbox_memory_mb": env_int("HOLDPOINT_SANDBOX_MEMORY_MB", 128, minimum=16, maximum=8192),
        "sandbox_landlock": _landlock_mode(),
        "sandbox_allow_root": env_bool("HOLDPOINT_SANDBOX_ALLOW_ROOT", default=False),
        "grant_ceilings": grant_ceilings(env_list("HOLDPOINT_GRANT_CEILINGS", GRANT_CEILINGS)),
        "start_ceilings": grant_ceilings(
            env_list("HOLDPOINT_START_CEILINGS", START_CEILINGS), "HOLDPOINT_START_CEILINGS"
        ),
    }


def _landlock_mode() -> str:
    """Return when code requires Landlock: "auto" (where the kernel has it), "on" or "off"."""
    name = "HOLDPOINT_SANDBOX_REQUIRE_LANDLOCK"
    if env_str(name, "auto").lower() == "auto":
        return "auto"
    return "on" if env_bool(name, default=True) else "off"


def grant_ceilings(
    entries: Sequence[str], setting: str = "HOLDPOINT_GRANT_CEILINGS"
) -> dict[str, str]:
    """Parse `group:set` entries; raises ImproperlyConfigured for an unknown set."""
    table: dict[str, str] = {}
    for entry in entries:
        group, _, ceiling = entry.partition(":")
        if not group or ceiling not in PERMISSION_SETS:
            known = ", ".join(PERMISSION_SETS)
            message = f"{setting}: {entry!r} is not GROUP:SET, the set one of {known}."
            raise ImproperlyConfigured(message)
        table[group] = ceiling
    return table


def _graph() -> dict[str, Any]:
    return {
        "embedder": env_str("HOLDPOINT_EMBEDDER", "hashing"),
        "embedder_model": env_str("HOLDPOINT_EMBEDDER_MODEL", "text-embedding-3-small"),
        "embedder_api_key": env_secret("HOLDPOINT_EMBEDDER_API_KEY", ""),
        "embedder_timeout_seconds": env_float(
            "HOLDPOINT_EMBEDDER_TIMEOUT_SECONDS", 10.0, minimum=0.1
        ),
        "embedder_query_prefix": env_str("HOLDPOINT_EMBEDDER_QUERY_PREFIX", ""),
        "embedder_document_prefix": env_str("HOLDPOINT_EMBEDDER_DOCUMENT_PREFIX", ""),
        "learn_statement_seconds": env_float(
            "HOLDPOINT_LEARN_STATEMENT_SECONDS", 10.0, minimum=0.01
        ),
        "learn_rank_seconds": env_float("HOLDPOINT_LEARN_RANK_SECONDS", 10.0, minimum=0),
        "suggest_threshold": env_float("HOLDPOINT_SUGGEST_THRESHOLD", 0.3, minimum=0, maximum=1),
        "suggest_max_tasks": env_int("HOLDPOINT_SUGGEST_MAX_TASKS", 8, minimum=1),
        "replan_max_tasks": env_int("HOLDPOINT_REPLAN_MAX_TASKS", 3, minimum=1),
        "predict_threshold": env_float("HOLDPOINT_PREDICT_THRESHOLD", 0.7, minimum=0, maximum=1),
        "permission_sets": env_list("HOLDPOINT_PERMISSION_SETS", PERMISSION_SETS),
        "search_candidates": env_int("HOLDPOINT_SEARCH_CANDIDATES", 50, minimum=1),
    }


def _audit(home: Path) -> dict[str, Any]:
    key = env_secret("HOLDPOINT_AUDIT_KEY", "")
    if key and len(key) < AUDIT_KEY_LENGTH:
        raise ImproperlyConfigured(
            f"HOLDPOINT_AUDIT_KEY must have at least {AUDIT_KEY_LENGTH} characters."
        )
    retired = env_list("HOLDPOINT_AUDIT_RETIRED_KEYS")
    for text in retired:
        if not _is_public_key(text):
            raise ImproperlyConfigured(
                f"HOLDPOINT_AUDIT_RETIRED_KEYS: {text!r} is not a public key of 32 bytes in base64."
            )
    return {
        "audit_key": key,
        "audit_retired_keys": retired,
        "audit_heads_file": env_path("HOLDPOINT_AUDIT_HEADS_FILE", home / "audit-heads.jsonl"),
        # Less than a minute, so that there is a head every minute even if one takes a while.
        "audit_heads_log": env_bool("HOLDPOINT_AUDIT_HEADS_LOG", default=False),
    }


def _is_public_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == PUBLIC_KEY_BYTES
    except ValueError:
        return False


def _siem() -> dict[str, Any]:
    """Destinations of security events; an empty one is off."""
    syslog = env_str("HOLDPOINT_SIEM_SYSLOG", "")
    if syslog and urlsplit(syslog).scheme not in ("tcp", "tls"):
        raise ImproperlyConfigured("HOLDPOINT_SIEM_SYSLOG must start with tcp:// or tls://.")
    return {
        "siem_file": env_str("HOLDPOINT_SIEM_FILE", ""),
        "siem_syslog": syslog,
        "siem_url": env_str("HOLDPOINT_SIEM_URL", ""),
        # The whole header: "Bearer …", or "Splunk …".
        "siem_authorization": env_secret("HOLDPOINT_SIEM_AUTHORIZATION", ""),
        "siem_keep_days": env_int("HOLDPOINT_SIEM_KEEP_DAYS", 90, minimum=1),
    }


def _desk() -> dict[str, Any]:
    return {
        # How long a decision on a page can be undone before the run continues.
        "undo_seconds": env_float("HOLDPOINT_UNDO_SECONDS", 5.0, minimum=0, maximum=600),
        "claim_seconds": env_int("HOLDPOINT_CLAIM_SECONDS", 300, minimum=5),
        "socket_backstop_seconds": env_float(
            "HOLDPOINT_SOCKET_BACKSTOP_SECONDS", 20.0, minimum=0.1
        ),
        "page_size": env_int("HOLDPOINT_PAGE_SIZE", 50, minimum=1, maximum=500),
    }


def _notices() -> dict[str, Any]:
    return {
        "notice_poll_seconds": env_float("HOLDPOINT_NOTICE_POLL_SECONDS", 0.5, minimum=0.02),
        # Notices within the gather time are one message; messages to a receiver keep the pause.
        "notice_gather_seconds": env_float("HOLDPOINT_NOTICE_GATHER_SECONDS", 10.0, minimum=0),
        "notice_pause_seconds": env_float("HOLDPOINT_NOTICE_PAUSE_SECONDS", 60.0, minimum=0),
        "notice_lease_seconds": env_float("HOLDPOINT_NOTICE_LEASE_SECONDS", 120.0, minimum=1),
        "notice_backoff_seconds": env_float("HOLDPOINT_NOTICE_BACKOFF_SECONDS", 5.0, minimum=0),
        "notice_max_attempts": env_int("HOLDPOINT_NOTICE_MAX_ATTEMPTS", 12, minimum=1),
        "notice_keep_days": env_int("HOLDPOINT_NOTICE_KEEP_DAYS", 90, minimum=1),
        # Links in e-mails that decide without a sign-in, for anyone who can read the mailbox.
        "answer_link_hours": env_int("HOLDPOINT_ANSWER_LINK_HOURS", 0, minimum=0, maximum=168),
        # The Web API of GovSlack is at https://slack-gov.com/api/.
        "slack_api_url": env_str("HOLDPOINT_SLACK_API_URL", "https://slack.com/api/"),
    }


def _limits() -> dict[str, Any]:
    """Limits for each token, or for each person without a token; 0 is unlimited."""
    return {
        "requests_per_minute": env_int("HOLDPOINT_REQUESTS_PER_MINUTE", 3000, minimum=0),
        "starts_per_minute": env_int("HOLDPOINT_STARTS_PER_MINUTE", 600, minimum=0),
        "decisions_per_minute": env_int("HOLDPOINT_DECISIONS_PER_MINUTE", 300, minimum=0),
        # Open streams and sockets, in each web process.
        "connections_each": env_int("HOLDPOINT_CONNECTIONS_EACH", 50, minimum=0),
        # Clients that register themselves, together; 0 leaves registration to admins.
        "oauth_registrations_per_hour": env_int(
            "HOLDPOINT_OAUTH_REGISTRATIONS_PER_HOUR", 60, minimum=0
        ),
        # Attempts of one address in an hour, also such that fail.
        "oauth_registrations_per_address": env_int(
            "HOLDPOINT_OAUTH_REGISTRATIONS_PER_ADDRESS", 20, minimum=0
        ),
        "behind_proxy": env_bool("HOLDPOINT_BEHIND_PROXY", default=False),
        # Approvals that need a second-factor code, and how long a code is valid.
        "step_up": env_choice("HOLDPOINT_STEP_UP", "off", ("off", "high_risk", "all")),
        "step_up_seconds": env_int("HOLDPOINT_STEP_UP_SECONDS", 600, minimum=30),
        # Failed sign-ins within the lock's time; see config.auth.sign_in_limits.
        "sign_in_lock_seconds": env_int("HOLDPOINT_SIGN_IN_LOCK_SECONDS", 900, minimum=1),
        "sign_in_failures": env_int("HOLDPOINT_SIGN_IN_FAILURES", 5, minimum=1),
        "sign_in_failures_per_address": env_int(
            "HOLDPOINT_SIGN_IN_FAILURES_PER_ADDRESS", 50, minimum=1
        ),
        "sign_in_failures_per_account": env_int(
            "HOLDPOINT_SIGN_IN_FAILURES_PER_ACCOUNT", 100, minimum=1
        ),
        "unknown_tokens_per_address": env_int(
            "HOLDPOINT_UNKNOWN_TOKENS_PER_ADDRESS", 50, minimum=1
        ),
    }


def _models() -> dict[str, Any]:
    return {
        "llm_model": env_str("HOLDPOINT_LLM_MODEL", ""),
        "llm_base_url": env_str("HOLDPOINT_LLM_BASE_URL", ""),
        "llm_api_key": env_secret("HOLDPOINT_LLM_API_KEY", ""),
        # A language model drafts the plans from words too.
        "plan_drafter": "workflows.planning.llm_drafts.draft"
        if env_str("HOLDPOINT_LLM_MODEL", "")
        else "",
    }


def _webhooks() -> dict[str, Any]:
    return {
        # Receivers on this machine, over plain http; for development and tests.
        "webhook_allow_loopback": env_bool("HOLDPOINT_WEBHOOK_ALLOW_LOOPBACK", default=False),
        # Receivers on a private network, each as host:port.
        "webhook_allow_hosts": env_list("HOLDPOINT_WEBHOOK_ALLOW_HOSTS"),
        "webhook_timeout_seconds": env_float(
            "HOLDPOINT_WEBHOOK_TIMEOUT_SECONDS", 10.0, minimum=0.5, maximum=60
        ),
        "webhook_poll_seconds": env_float("HOLDPOINT_WEBHOOK_POLL_SECONDS", 0.5, minimum=0.02),
        "webhook_lease_seconds": env_float("HOLDPOINT_WEBHOOK_LEASE_SECONDS", 30.0, minimum=1),
        # 0 switches the sender of this process off.
        "webhook_concurrency": env_int("HOLDPOINT_WEBHOOK_CONCURRENCY", 32, minimum=0, maximum=256),
        "webhook_per_endpoint": env_int("HOLDPOINT_WEBHOOK_PER_ENDPOINT", 4, minimum=1),
        "webhook_backoff_seconds": env_float("HOLDPOINT_WEBHOOK_BACKOFF_SECONDS", 1.0, minimum=0),
        "webhook_max_backoff_seconds": env_float(
            "HOLDPOINT_WEBHOOK_MAX_BACKOFF_SECONDS", 3600.0, minimum=0
        ),
        "webhook_park_after": env_int("HOLDPOINT_WEBHOOK_PARK_AFTER", 20, minimum=1),
        "webhook_max_attempts": env_int("HOLDPOINT_WEBHOOK_MAX_ATTEMPTS", 25, minimum=1),
        "webhook_rotation_seconds": env_int(
            "HOLDPOINT_WEBHOOK_ROTATION_SECONDS", 86_400, minimum=0
        ),
        "webhook_keep_days": env_int("HOLDPOINT_WEBHOOK_KEEP_DAYS", 30, minimum=1),
        "webhook_max_endpoints": env_int("HOLDPOINT_WEBHOOK_MAX_ENDPOINTS", 20, minimum=1),
    }


def _operations() -> dict[str, Any]:
    return {
        # Hours of the day (UTC) in which retention erases old runs; "" for all.
        "retention_hours": env_hours("HOLDPOINT_RETENTION_HOURS"),
        # Runs that are erased in one transaction.
        "retention_batch": env_int("HOLDPOINT_RETENTION_BATCH", 100, minimum=1, maximum=2000),
        "metrics_token": env_secret("HOLDPOINT_METRICS_TOKEN", ""),
        "metrics_networks": env_list("HOLDPOINT_METRICS_NETWORKS"),
        "ready_sweeper_seconds": env_float("HOLDPOINT_READY_SWEEPER_SECONDS", 60.0, minimum=1),
        "ready_queue_depth": env_int("HOLDPOINT_READY_QUEUE_DEPTH", 10_000, minimum=1),
    }


def _demo() -> dict[str, Any]:
    return {
        "demo": env_bool("HOLDPOINT_DEMO", default=False),
        "demo_repository": env_str("HOLDPOINT_DEMO_REPOSITORY", str(BASE_DIR)),
    }
