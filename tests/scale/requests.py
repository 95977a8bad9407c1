"""What people and programs ask for when there is much of everything."""

from __future__ import annotations

from typing import Final

#: Who asks every list, among a million rows and among few.
ASKING: Final = ("reviewer", "lead", "operator", "admin", "auditor", "integrator")
#: Of very many runs they see a few per cent, far apart: filters make them walk for longer.
SEE_LITTLE: Final = ("integrator",)
ASKING_FEW: Final = ("reviewer", "operator")

TABS: Final = ("me", "groups", "claimed", "open", "decided")
QUEUE: Final = {
    **{f"queue {tab}": f"/review/?tab={tab}" for tab in TABS},
    "queue words": "/review/?tab=open&q=zeppelin",
    "queue number": "/review/?tab=open&q=400",
    "queue high risk": "/review/?risk=high",
    "queue workflow": "/review/?tab=open&workflow=invoices",
    "queue oldest": "/review/?tab=open&sort=oldest",
    "queue decided words": "/review/?tab=decided&q=zeppelin",
    "queue decided high": "/review/?tab=decided&risk=high",
}
PENDING: Final = {
    **{f"REST pending {tab}": f"/api/v1/reviews/pending/?tab={tab}" for tab in TABS[:-1]},
    "REST pending oldest": "/api/v1/reviews/pending/?tab=open&ordering=opened_at",
    "REST pending words": "/api/v1/reviews/pending/?tab=open&q=zeppelin",
}
HISTORY: Final = {
    "history": "/history/",
    "history rejected": "/history/?decision=REJECT",
    "history approved": "/history/?decision=APPROVE",
    "history of a person": "/history/?reviewer=reviewer2",
    "history of a rare person": "/history/?reviewer=lawyer",
    "history of time": "/history/?expired=true",
    "history edited": "/history/?edited=true",
    "history bulk": "/history/?bulk=true",
    "history workflow": "/history/?workflow=Invoices",
    "history tool": "/history/?tool=builtin.write_file",
    "history rare words": "/history/?q=zoe",
    "history common words": "/history/?q=wrong+tone",
    "history after": "/history/?phase=AFTER_EXECUTION",
    "history run": "/history/?execution=4321",
    "history node": "/history/?node=publish",
    "REST history": "/api/v1/reviews/history/",
    "REST history words": "/api/v1/reviews/history/?q=zoe",
}
RUNS: Final = {
    "runs": "/runs/",
    "runs failed": "/runs/?status=FAILED",
    "runs paused": "/runs/?status=PAUSED_FOR_REVIEW",
    "runs words": "/runs/?q=zeppelin",
    "runs no words": "/runs/?q=nothinglikethis",
    "REST runs": "/api/v1/executions/",
    "REST runs oldest": "/api/v1/executions/?ordering=created_at",
    "REST runs moved": "/api/v1/executions/?ordering=-updated_at",
    "REST runs workflow": "/api/v1/executions/?workflow=invoices",
    "REST runs failed": "/api/v1/executions/?status=FAILED",
    "REST runs mine": "/api/v1/executions/?created_by=me",
    "REST runs since": "/api/v1/executions/?created_from=2020-01-01T00:00:00Z",
    "workflows": "/workflows/",
}

#: (what, who) of which we know that more than a third of a table may be looked at; see
#: docs/benchmarks.md.
KNOWN: Final[frozenset[tuple[str, str]]] = frozenset(
    [
        ("REST runs moved", "reviewer"),
        *((name, who) for name in (*HISTORY, "REST runs moved") for who in SEE_LITTLE),
    ]
)
