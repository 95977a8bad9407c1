"""What a decision's body says, in our words or in those of another product."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from reviews.api.serializers import ResumeSerializer
from workflows.api.etags import seen_version
from workflows.api.parsers import object_body
from workflows.common.decision_formats import FOREIGN, Meant, NotUnderstood, is_foreign, meaning_of
from workflows.engine.plan_validation import Problem
from workflows.executions.services import InvalidRequest
from workflows.models import Hold


def read_answer(request: Request) -> tuple[Meant | None, dict[str, Any]]:
    """The fields of ResumeSerializer, and what was meant where it came in other words.

    Raises ValidationError or InvalidRequest with the paths of what is at fault.
    """
    body = object_body(request.data)
    meant = None
    if is_foreign(body):
        meant = _understood(body)
        body = {**{name: body[name] for name in body if name not in FOREIGN}, **_ours(meant, body)}
    asked = ResumeSerializer(data=body)
    asked.is_valid(raise_exception=True)
    wanted = dict(asked.validated_data)
    if "version" not in wanted:
        version = seen_version(request)
        if version is None:
            message = "say which version you saw, here or in If-Match"
            raise ValidationError({"version": [message]}, code="required")
        wanted["version"] = version
    return meant, wanted


def _understood(body: dict[str, Any]) -> Meant:
    try:
        return meaning_of(body)
    except NotUnderstood as error:
        problem = Problem(error.path, error.code, error.message)
        raise InvalidRequest((problem,)) from None


def _ours(meant: Meant, body: dict[str, Any]) -> dict[str, Any]:
    ours: dict[str, Any] = {"decision": meant.decision}
    for name, value in (("edits", meant.edits), ("comment", meant.comment)):
        if value is None or value == "":
            continue
        if body.get(name) not in (None, ""):
            problem = Problem(name, "twice", "is given twice, in two vocabularies")
            raise InvalidRequest((problem,))
        ours[name] = value
    return ours


def check_fits(meant: Meant, hold: Hold) -> None:
    """Raise InvalidRequest when this hold cannot take what was meant."""
    if meant.instead and hold.phase != "AFTER_EXECUTION":
        message = "only a hold after a task can take an answer in place of its output"
        raise InvalidRequest((Problem("decision", "no_output_yet", message),))
    if meant.tool and meant.tool not in (hold.target, hold.target.partition(".")[2]):
        message = f"this hold is about {hold.target!r}; another tool cannot be put in its place"
        raise InvalidRequest((Problem("edited_action.name", "another_tool", message),))
