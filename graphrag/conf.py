"""Typed settings of the tool graph, read from ``settings.HOLDPOINT`` at every call.

Keys, all optional:

- ``embedder`` ("hashing"): ``hashing``, ``semantic``, ``sentence-transformers:<model>`` or
  ``openai:<base url>``
- ``embedder_model`` ("text-embedding-3-small"): model name sent to an ``openai:`` server
- ``embedder_api_key`` (""): bearer token for an ``openai:`` server
- ``embedder_query_prefix``, ``embedder_document_prefix`` (""): put before each text that is sent to
  an ``openai:`` server
- ``suggest_threshold`` (0.3): confidence below which no plan is suggested
- ``suggest_max_tasks`` (8): tasks in one suggested plan
- ``plan_drafter`` (""): dotted path of a function that drafts plans with a language model
- ``replan_max_tasks`` (3): tasks one replan may add
- ``permission_sets`` (the six named sets): the choices for a tool
"""

from collections.abc import Mapping
from typing import Any

from django.conf import settings


def _value(key: str, default: Any) -> Any:
    table: Mapping[str, Any] = getattr(settings, "HOLDPOINT", {})
    return table.get(key, default)


def embedder() -> str:
    """The configured embedder, e.g. ``hashing``."""
    return str(_value("embedder", "hashing"))


def embedder_model() -> str:
    """Model name sent to an OpenAI-compatible embedding server."""
    return str(_value("embedder_model", "text-embedding-3-small"))


def embedder_api_key() -> str:
    """Bearer token for an OpenAI-compatible embedding server, or an empty string."""
    return str(_value("embedder_api_key", ""))


def embedder_query_prefix() -> str:
    """The text put before a query that is sent to an OpenAI-compatible embedding server."""
    return str(_value("embedder_query_prefix", ""))


def embedder_document_prefix() -> str:
    """The text put before a tool's text that is sent to an OpenAI-compatible embedding server."""
    return str(_value("embedder_document_prefix", ""))


def suggest_threshold() -> float:
    """Confidence (0 to 1) below which ``suggest`` returns no plan."""
    return float(_value("suggest_threshold", 0.3))


def suggest_max_tasks() -> int:
    """Maximum number of tasks in one suggested plan."""
    return int(_value("suggest_max_tasks", 8))


def plan_drafter() -> str:
    """Dotted path of a ``model_drafts.Drafter``; empty without a language model."""
    return str(_value("plan_drafter", ""))


def replan_max_tasks() -> int:
    """Maximum number of tasks that one replan adds."""
    return int(_value("replan_max_tasks", 3))


def permission_sets() -> tuple[str, ...]:
    """Names of the permission sets a person may choose for a tool."""
    return tuple(
        _value(
            "permission_sets",
            ("minimal", "readonly", "filesystem", "network-api", "mcp-standard", "trusted"),
        )
    )
