"""An edit that came too late: what was shown, what was decided, what one wrote, side by side."""

from __future__ import annotations

import json
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_

from reviews.components.diffs import MISSING
from reviews.decisions.masking import Masked, edited_as_shown, masked
from reviews.decisions.three_way_merge import MergeRow, merge
from reviews.models import HumanReviewRecord

_WORDS = {
    "theirs": N_("only the decision changed it"),
    "mine": N_("only you changed it"),
    "both": N_("you both made the same change"),
    "conflict": N_("you changed it differently"),
}


def versions_context(
    view: Masked, state: str, records: list[HumanReviewRecord], mine: Any
) -> dict[str, Any] | None:
    """rows of path, base, theirs, mine, outcome, words; None when there is nothing to compare.

    `together` is the JSON text with every edit of both, "" where mine has them all; of a place that
    both edited it has mine.  `view` is the payload as it is shown, `mine` the whole of it as the
    person made it; `records` are the hold's.
    """
    if state != "decided" or not records:
        return None
    record = records[-1]
    theirs = record.modified_data if record.is_edited else record.original_data
    decided = masked(theirs, view.rules, after=view)
    both = merge(view.value, decided.value, edited_as_shown(decided, mine))
    outcomes = {row.outcome for row in both.rows}
    if outcomes.isdisjoint(("mine", "conflict")):
        return None
    together = json.dumps(both.merged, indent=2, ensure_ascii=False)
    return {
        "by": record.actor,
        "rows": tuple(_row(row) for row in both.rows),
        "together": together if "theirs" in outcomes else "",
    }


def _row(row: MergeRow) -> dict[str, Any]:
    return {
        "path": row.dotted or _("the whole value"),
        "cells": tuple(
            {"is_missing": value is MISSING, "value": "" if value is MISSING else value}
            for value in (row.base, row.theirs, row.mine)
        ),
        "outcome": row.outcome,
        "words": _(_WORDS[row.outcome]),
    }
