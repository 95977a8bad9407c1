"""The product's own numbers: `settings.HOLDPOINT`, each overridable by `HOLDPOINT_<KEY>`.

The apps read them through their `conf.py` at access time, so a test can override one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from config.env import env_bool, env_float, env_int, env_list, env_path, env_secret, env_str
from config.paths import BASE_DIR

PERMISSION_SETS = ("minimal", "readonly", "filesystem", "network-api", "mcp-standard", "trusted")

#: Up to which set the members of a group may grant; `*` is every group that is not named.
GRANT_CEILINGS = ("reviewer:mcp-standard", "admin:trusted", "*:mcp-standard")


def product_settings(*, home: Path, site_url: str) -> dict[str, Any]:
    """Seconds unless the key says otherwise; paths are absolute."""
    return {
        "home": home,
        "site_url": site_url,
        **_engine(),
        **_tools(home),
        **_sandbox(home),
        **_graph(),
        **_desk(),
        **_demo(),
        **_models(),
        # Where the executions app calls what stands above it, by dotted path.
        "sweep_hooks": [
            "reviews.services.expire_due",
            "workflows.idempotency.forget_old",
        ],
        "decision_service": "reviews.services.decide_command",
    }


def _engine() -> dict[str, Any]:
    return {
        "lease_seconds": env_int("HOLDPOINT_LEASE_SECONDS", 30, minimum=2),
        "slice_seconds": env_float("HOLDPOINT_SLICE_SECONDS", 2.0, minimum=0),
        "commit_window_ms": env_int("HOLDPOINT_COMMIT_WINDOW_MS", 50, minimum=0, maximum=10_000),
        "checkpoints_kept": env_int("HOLDPOINT_CHECKPOINTS_KEPT", 5, minimum=1),
        "max_replans": env_int("HOLDPOINT_MAX_REPLANS", 3, minimum=0),
        "abandoned_ttl_seconds": env_int("HOLDPOINT_ABANDONED_TTL_SECONDS", 3600, minimum=1),
        "sweep_seconds": env_float("HOLDPOINT_SWEEP_SECONDS", 3.0, minimum=0.1),
        "task_timeout_seconds": env_int("HOLDPOINT_TASK_TIMEOUT_SECONDS", 300, minimum=1),
        "workers": env_int("HOLDPOINT_WORKERS", 2, minimum=1, maximum=256),
    }


def _tools(home: Path) -> dict[str, Any]:
    return {
        "tool_modules": env_list("HOLDPOINT_TOOL_MODULES"),  # besides the built-in ones
        "file_root": env_path("HOLDPOINT_FILE_ROOT", home / "files"),
        "http_allow_hosts": env_list("HOLDPOINT_HTTP_ALLOW_HOSTS"),
        "mcp_call_timeout_seconds": env_int("HOLDPOINT_MCP_CALL_TIMEOUT_SECONDS", 60, minimum=1),
    }


def _sandbox(home: Path) -> dict[str, Any]:
    return {
        "sandbox_root": env_path("HOLDPOINT_SANDBOX_ROOT", home / "sandbox"),
        "sandbox_memory_mb": env_int("HOLDPOINT_SANDBOX_MEMORY_MB", 128, minimum=16, maximum=8192),
        # A second wall behind the runtimes' own; a system check says when it is missing.
        "sandbox_require_landlock": env_bool("HOLDPOINT_SANDBOX_REQUIRE_LANDLOCK", default=False),
        "grant_ceilings": grant_ceilings(env_list("HOLDPOINT_GRANT_CEILINGS", GRANT_CEILINGS)),
    }


def grant_ceilings(entries: Sequence[str]) -> dict[str, str]:
    """`group:set` entries as a table; ImproperlyConfigured for a set that does not exist."""
    table: dict[str, str] = {}
    for entry in entries:
        group, _, ceiling = entry.partition(":")
        if not group or ceiling not in PERMISSION_SETS:
            known = ", ".join(PERMISSION_SETS)
            message = (
                f"HOLDPOINT_GRANT_CEILINGS: {entry!r} is not GROUP:SET, the set one of {known}."
            )
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
        "suggest_threshold": env_float("HOLDPOINT_SUGGEST_THRESHOLD", 0.45, minimum=0, maximum=1),
        "suggest_max_tasks": env_int("HOLDPOINT_SUGGEST_MAX_TASKS", 8, minimum=1),
        "replan_max_tasks": env_int("HOLDPOINT_REPLAN_MAX_TASKS", 3, minimum=1),
        "predict_threshold": env_float("HOLDPOINT_PREDICT_THRESHOLD", 0.7, minimum=0, maximum=1),
        "permission_sets": env_list("HOLDPOINT_PERMISSION_SETS", PERMISSION_SETS),
        "search_candidates": env_int("HOLDPOINT_SEARCH_CANDIDATES", 50, minimum=1),
    }


def _desk() -> dict[str, Any]:
    return {
        "claim_seconds": env_int("HOLDPOINT_CLAIM_SECONDS", 300, minimum=5),
        "socket_backstop_seconds": env_float(
            "HOLDPOINT_SOCKET_BACKSTOP_SECONDS", 20.0, minimum=0.1
        ),
        "page_size": env_int("HOLDPOINT_PAGE_SIZE", 50, minimum=1, maximum=500),
    }


def _models() -> dict[str, Any]:
    return {
        "llm_model": env_str("HOLDPOINT_LLM_MODEL", ""),
        "llm_base_url": env_str("HOLDPOINT_LLM_BASE_URL", ""),
        "llm_api_key": env_secret("HOLDPOINT_LLM_API_KEY", ""),
    }


def _demo() -> dict[str, Any]:
    return {
        "demo": env_bool("HOLDPOINT_DEMO", default=False),
        "demo_repository": env_str("HOLDPOINT_DEMO_REPOSITORY", str(BASE_DIR)),
    }
