"""Fields of a plan on the planner page."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from reviews.authoring.fields import posted_plan


def test_another_phase_keeps_the_rest_of_the_review() -> None:
    review: dict[str, Any] = {"groups": ["finance"], "quorum": 2, "enabled": False}
    task = {"id": "pay", "type": "tool", "tool": "bank.pay", "human_review": review}
    posted = QueryDict("t0.id=pay&t0.review=AFTER_EXECUTION")
    found = posted_plan({"tasks": [task]}, {}, posted)
    assert found.errors == []
    assert found.plan["tasks"][0]["human_review"] == {
        "groups": ["finance"],
        "quorum": 2,
        "trigger_phase": "AFTER_EXECUTION",
    }
