"""Where a run's policy differs from what its workflow, or the installation, asks for."""

from __future__ import annotations

import json
from typing import Any

from reviews.decisions.review_context import shown_overrides
from workflows import conf
from workflows.models import Execution


def overrides_context(execution: Execution) -> tuple[dict[str, Any], ...]:
    """The overrides of a run, those that loosen something first; secrets are masked."""
    rows = sorted(shown_overrides(execution), key=lambda each: not each["loosens"])
    return tuple(
        {
            "field": each["field"],
            "before": json.dumps(each["from"], ensure_ascii=False),
            "after": json.dumps(each["to"], ensure_ascii=False),
            "loosens": each["loosens"],
            "by": each["by"],
        }
        for each in rows
    )


def floor_json() -> str:
    """What plans without a workflow may not loosen, as indented JSON."""
    return json.dumps(conf.policy_floor(), indent=2, ensure_ascii=False)
