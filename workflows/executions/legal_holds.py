"""Legal holds: which rows the sweeper may delete because of their age.

`reviews.retention` sets the holds; the view `reviews_erasable` of the database checks them too.
"""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from workflows.models import Execution, Gate, GateCall

Row = TypeVar("Row", bound=Model)


def without_legal_hold(rows: QuerySet[Row], run: str = "execution") -> QuerySet[Row]:
    """Exclude rows of runs that a legal hold keeps; `run` is the path from a row to its run."""
    of_run = Q(legal_holds__isnull=False, legal_holds__lifted_at=None)
    of_workflow = Q(workflow__legal_holds__isnull=False, workflow__legal_holds__lifted_at=None)
    of_gate = Q(
        approval__gate_call__gate__legal_holds__isnull=False,
        approval__gate_call__gate__legal_holds__lifted_at=None,
    )
    held = Execution.objects.filter(of_run | of_workflow | of_gate, pk=OuterRef(run))
    return rows.exclude(Exists(held))


def without_legal_hold_of_gate(calls: QuerySet[GateCall]) -> QuerySet[GateCall]:
    """Exclude calls of MCP gates that a legal hold keeps."""
    held = Gate.objects.filter(
        legal_holds__isnull=False, legal_holds__lifted_at=None, pk=OuterRef("gate")
    )
    return calls.exclude(Exists(held))
