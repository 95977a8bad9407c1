"""Product settings: `settings.HOLDPOINT`.

The apps read them through their `conf.py` at access time, so tests can override them.
"""

from pathlib import Path
from typing import Any

from config.settings import topics


def product_settings(*, home: Path, site_url: str) -> dict[str, Any]:
    """Return the product settings; values are in seconds unless the key names a unit."""
    values: dict[str, Any] = {"home": home, "site_url": site_url}
    for topic in topics.PRODUCT:
        values |= topic.read().model_dump()
    values["file_root"] = values["file_root"] or home / "files"
    values["sandbox_root"] = values["sandbox_root"] or home / "sandbox"
    values["audit_heads_file"] = values["audit_heads_file"] or home / "audit-heads.jsonl"
    values["sandbox_landlock"] = values.pop("sandbox_require_landlock")
    tls_files = [values.pop(f"dask_tls_{name}") for name in ("ca", "cert", "key")]
    has_tls = values["dask_scheduler"].startswith("tls://")
    values["dask_tls_files"] = tuple(tls_files) if has_tls else ("", "", "")
    # A language model drafts the plans from words too.
    drafter = "workflows.planning.llm_drafts.draft"
    values["plan_drafter"] = drafter if values["llm_model"] else ""
    return values | HOOKS


HOOKS: dict[str, Any] = {
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
        "workflows.security_events.services.delete_old",
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
    "definition_view": "reviews.authoring.definition_view.shown_definition",
}
