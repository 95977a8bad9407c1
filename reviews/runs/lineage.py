"""Where a run comes from, what went on from it, and where a new one can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from workflows.executions.access import visible_to
from workflows.journal.writer import load_revision
from workflows.models import Checkpoint, Execution

if TYPE_CHECKING:
    from django.contrib.auth.models import User

_MAX_FORKS = 20


def lineage(user: User, execution: Execution) -> dict[str, Any]:
    """`parent` (None without one) and `forks` of a run, as far as `user` may see them."""
    seen = visible_to(user)
    parent = None
    if execution.parent_id is not None:
        is_seen = seen.filter(pk=execution.parent_id).exists()
        parent = {
            "number": execution.parent_id,
            "layer": _number(execution),
            **_addresses(execution.parent_id, execution.pk, is_seen=is_seen),
        }
    forks = seen.filter(parent=execution).order_by("id")[:_MAX_FORKS]
    return {"parent": parent, "forks": tuple(_fork(execution, each) for each in forks)}


def _fork(parent: Execution, fork: Execution) -> dict[str, Any]:
    return {
        "number": fork.pk,
        "layer": _number(fork),
        "status": fork.status,
        **_addresses(parent.pk, fork.pk, is_seen=True, to_fork=True),
    }


def _number(fork: Execution) -> int:
    return (fork.forked_at_layer if fork.forked_at_layer is not None else -1) + 1


def _addresses(parent: int, fork: int, *, is_seen: bool, to_fork: bool = False) -> dict[str, str]:
    if not is_seen:
        return {"url": "", "compare_url": ""}
    return {
        "url": reverse("reviews:run", args=(fork if to_fork else parent,)),
        "compare_url": reverse("reviews:compare", args=(parent, fork)),
    }


def fork_urls(execution: Execution) -> dict[int, str]:
    """Where a new run can begin: layer → address, for kept checkpoints with work behind them."""
    found = Checkpoint.objects.filter(execution=execution).defer("context", "state")
    return {
        each.layer: reverse("reviews:fork", args=(execution.pk, each.layer))
        for each in found.order_by("layer")
        if each.layer + 1 < len(load_revision(execution.pk, each.revision).layers)
    }
