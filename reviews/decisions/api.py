"""REST endpoints of decisions: read the context, resume, withdraw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews.decisions import api_context, services, withdrawal
from reviews.decisions.conflicts import Conflict, present_state
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.episodes import episodes
from reviews.decisions.rights import NotAllowed
from reviews.decisions.services import MAX_COMMENT, DecisionRequest, DecisionResult
from reviews.models import ANSWERS
from reviews.queue.api import HoldRowSerializer
from workflows.api.etags import if_match_version
from workflows.api.examples import RESUME
from workflows.api.idempotency_header import idempotent
from workflows.api.openapi import BODY, EXECUTION_ID, IDEMPOTENCY_KEY, IF_MATCH, problems
from workflows.api.parsers import (
    DecisionJSONParser,
    object_body,
    reject_query_params,
    validated_body,
)
from workflows.api.permission_classes import HasScope, caller, session_confirmed_at, token_of
from workflows.api.problems import register
from workflows.api.serializers import (
    OverrideSerializer,
    RequestIdField,
    StrictSerializer,
    WarningSerializer,
)
from workflows.common.decision_formats import (
    FOREIGN_FIELDS,
    TranslatedDecision,
    UnknownDecisionFormat,
    is_foreign,
    translate_decision,
)
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.policy.standing_terms import (
    MAX_HOURS,
    MAX_USES,
    USES,
    Rule,
    StandingTerms,
    parse_rule,
)
from workflows.engine.protocol.commands import MAX_UNDO_SECONDS
from workflows.executions.idempotency import StoredResponse, json_text, keep_refusal_logs
from workflows.executions.validation import InvalidRequest
from workflows.models import Hold

if TYPE_CHECKING:
    from django.contrib.auth.models import User

register(ReviewInvalid, status=422, code="invalid")
register(NotAllowed, status=403, code="forbidden")
register(Conflict, status=409, code="stale_version")
register(services.HoldNotFound, status=404, code="not_found")
keep_refusal_logs(ReviewInvalid, NotAllowed, Conflict, services.HoldNotFound)

_MAX_BIGINT = 2**63 - 1


# --- serializers ----------------------------------------------------------------------------------


@extend_schema_field(
    {
        "oneOf": [
            {"type": "string", "enum": ["exact", "any"]},
            {
                "type": "object",
                "properties": {
                    "up_to": {"type": "number", "minimum": 0},
                    "in_all": {"type": ["number", "null"], "minimum": 0},
                },
                "required": ["up_to"],
                "additionalProperties": False,
            },
        ]
    }
)
class RuleField(serializers.Field):  # type: ignore[type-arg]
    """`"exact"`, `"any"`, or `{"up_to": 500, "in_all": 2000}`."""

    default_error_messages = {
        "invalid": 'must be "exact", "any" or an object with up_to and, if you like, in_all:'
        " numbers from 0"
    }

    def to_internal_value(self, data: Any) -> Rule:
        try:
            return parse_rule(data)
        except ValueError:
            self.fail("invalid")

    def to_representation(self, value: Any) -> Any:
        return value


class StandingSerializer(StrictSerializer):
    """The terms of a standing answer; an argument without a rule has to be exactly the same."""

    seconds = serializers.FloatField(min_value=1, max_value=MAX_HOURS * 3600)
    max_uses = serializers.IntegerField(min_value=1, max_value=MAX_USES, default=USES)
    arguments = serializers.DictField(child=RuleField(), required=False)


class ResumeSerializer(StrictSerializer):
    """A decision about a hold, with the version of the execution that the caller saw.

    The version may be in If-Match instead.  Decisions in formats of other products (`approve`,
    `edit`, `respond`, `ignore`, `chosen_options`, `decline`, …) are accepted too.
    """

    execution_id = RequestIdField()
    hold_id = serializers.CharField(max_length=40, required=False)
    node_id = serializers.CharField(max_length=64, required=False)
    version = serializers.IntegerField(min_value=0, max_value=_MAX_BIGINT, required=False)
    decision = serializers.ChoiceField(
        choices=ANSWERS,
        help_text="REQUEST_CHANGES has the task run again with `comment`, which is then required.",
    )
    edits = serializers.JSONField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Before a task: an object laid over its inputs. After it: the whole new output. "
        'A plan review: {"drop": [ids]}. Absent or null: no change.',
    )
    set_output_null = serializers.BooleanField(
        required=False,
        default=False,
        help_text="After a task: approve with null in place of its output. Not beside edits.",
    )
    comment = serializers.CharField(
        required=False, allow_blank=True, max_length=MAX_COMMENT, trim_whitespace=False, default=""
    )
    grant_scope = serializers.ChoiceField(
        choices=["task", "execution", "capability", "until"], required=False, default="task"
    )
    grant_seconds = serializers.FloatField(
        required=False, allow_null=True, default=None, min_value=1, max_value=2_592_000
    )
    standing = StandingSerializer(
        required=False,
        allow_null=True,
        default=None,
        help_text="Approve an external action, and later ones of its agent with arguments like"
        " these, where the approval policy of the action allows it.",
    )
    undo_seconds = serializers.FloatField(
        required=False,
        default=0,
        min_value=0,
        max_value=MAX_UNDO_SECONDS,
        help_text="For how long the decision can be undone; the run rests until then.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("hold_id" in attrs) == ("node_id" in attrs):
            raise serializers.ValidationError({"hold_id": ["give either hold_id or node_id"]})
        return attrs


class OpenHoldSerializer(serializers.Serializer[Any]):
    """An open hold of an execution."""

    id = serializers.CharField()
    node_id = serializers.CharField(allow_blank=True)
    trigger_phase = serializers.CharField(allow_blank=True)


class ResumedSerializer(serializers.Serializer[Any]):
    """The state after a decision.  `complete` is false for an approval of an incomplete quorum.

    `warnings` lists keys that an edit added and the tool's schema does not declare.
    """

    execution_id = serializers.CharField()
    hold_id = serializers.CharField()
    decision = serializers.CharField()
    edited = serializers.BooleanField()
    complete = serializers.BooleanField()
    undo_until = serializers.DateTimeField(allow_null=True)
    record_id = serializers.CharField()
    warnings = WarningSerializer(many=True)
    status = serializers.CharField()
    version = serializers.IntegerField()
    holds = OpenHoldSerializer(many=True)
    paused_node_id = serializers.CharField(allow_null=True)
    paused_phase = serializers.CharField(allow_null=True)


class WithdrawSerializer(StrictSerializer):
    """The reason of a withdrawal; stored in the record."""

    comment = serializers.CharField(
        required=False, allow_blank=True, max_length=MAX_COMMENT, trim_whitespace=False, default=""
    )


class WithdrawnSerializer(serializers.Serializer[Any]):
    """`what` is `decision`, or `vote` for one approval of a quorum; the hold is open again."""

    hold_id = serializers.CharField()
    execution_id = serializers.CharField()
    what = serializers.ChoiceField(choices=["decision", "vote"])
    record_id = serializers.CharField()
    withdraws = serializers.CharField()
    status = serializers.CharField()
    version = serializers.IntegerField()


class RightSerializer(serializers.Serializer[Any]):
    """The caller's rights on a hold, and the reason if a right is missing."""

    approve = serializers.BooleanField()
    reject = serializers.BooleanField()
    reason = serializers.CharField(allow_blank=True)


class MaskSerializer(serializers.Serializer[Any]):
    """A masked value: the number in its mark, `[•••••••• 3]`, and its `paths`."""

    place = serializers.CharField()
    number = serializers.IntegerField()
    paths = serializers.ListField(child=serializers.CharField(allow_blank=True))


class HoldDetailSerializer(HoldRowSerializer):
    """A hold with its payload, JSON Schema, instructions, and the caller's rights.

    Secrets in the payload are replaced by marks, listed in `masked`.
    """

    payload = serializers.JSONField()
    masked = MaskSerializer(many=True)
    schema = serializers.JSONField(allow_null=True)
    right = RightSerializer()
    cannot_be_approved = serializers.BooleanField(
        help_text="Too few people are left who may approve it: its groups are empty or too small."
    )

    class Meta(HoldRowSerializer.Meta):
        fields = (  # type: ignore[assignment]
            *HoldRowSerializer.Meta.fields, "instructions", "payload", "masked", "schema", "right",
            "cannot_be_approved",
            "round", "previous", "changes_left",
        )  # fmt: skip


class ContextTaskSerializer(serializers.Serializer[Any]):
    """A task of the run."""

    id = serializers.CharField()
    target = serializers.CharField()
    layer = serializers.IntegerField()
    status = serializers.CharField()
    inputs = serializers.JSONField(allow_null=True)
    output = serializers.JSONField(allow_null=True)
    error = serializers.CharField(allow_blank=True)
    edited = serializers.BooleanField(source="is_edited")


class ContextSerializer(serializers.Serializer[Any]):
    """Everything around the open holds of one execution."""

    execution_id = serializers.CharField()
    title = serializers.CharField()
    workflow = serializers.CharField(allow_null=True)
    status = serializers.CharField()
    version = serializers.IntegerField()
    layer = serializers.IntegerField()
    total_layers = serializers.IntegerField()
    inputs = serializers.JSONField()
    context = serializers.JSONField()  # type: ignore[assignment]
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    policy_overrides = OverrideSerializer(many=True)
    holds = HoldDetailSerializer(many=True)
    tasks = ContextTaskSerializer(many=True)
    messages = serializers.ListField(child=serializers.JSONField())
    decisions = serializers.ListField(child=serializers.JSONField())


class SimilarSerializer(StrictSerializer):
    """A call that is planned."""

    tool = serializers.CharField(max_length=200)
    arguments = serializers.JSONField(
        required=False,
        allow_null=True,
        help_text="Arguments of the call, or its output for the phase AFTER_EXECUTION; the most "
        "similar decisions come first. Without arguments, the newest do.",
    )
    phase = serializers.ChoiceField(
        choices=[each.value for each in TriggerPhase], required=False, allow_null=True
    )
    limit = serializers.IntegerField(min_value=1, max_value=20, default=5)


class EpisodeSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """A past decision of a person about a call of the tool, and the outcome of the call."""

    id = serializers.CharField(help_text="The record in /reviews/history/.")
    execution_id = serializers.CharField()
    tool = serializers.CharField()
    phase = serializers.CharField()
    workflow_title = serializers.CharField()
    similarity = serializers.FloatField(
        allow_null=True, help_text="0 to 1; null without arguments to compare."
    )
    decision = serializers.CharField(help_text=f"One of {', '.join(ANSWERS)}.")
    edited = serializers.ListField(
        child=serializers.CharField(), help_text="Paths that the person changed."
    )
    comment = serializers.CharField(help_text="Secrets in it are masked.")
    decided_at = serializers.DateTimeField()
    outcome = serializers.CharField(
        help_text="Of the call: `succeeded` or `failed`, `open` until it has ended, `not_run` "
        "unless it was approved."
    )


class SimilarAnswerSerializer(serializers.Serializer):  # type: ignore[type-arg]
    """Past decisions about the tool in runs that the caller may see."""

    results = EpisodeSerializer(many=True)


# --- views ----------------------------------------------------------------------------------------


class PendingContextView(APIView):
    """Everything around the open holds of one execution."""

    permission_classes = [HasScope("decide")]

    @extend_schema(
        operation_id="reviews_pending_context",
        parameters=[EXECUTION_ID],
        responses={200: ContextSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, execution_id: int) -> Response:
        """Return the execution, its open holds with payload and schema, tasks and decisions."""
        reject_query_params(request)
        context = api_context.review_context(caller(request), execution_id)
        return Response(ContextSerializer(context).data)


class ResumeView(APIView):
    """Decide a hold."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]
    throttle_scope = "decide"

    @extend_schema(
        operation_id="reviews_resume",
        parameters=[IDEMPOTENCY_KEY, IF_MATCH],
        request=ResumeSerializer,
        examples=RESUME,
        responses={200: ResumedSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request) -> Response:
        """Decide a hold at the version that the caller saw.

        409 with the present state if the run has changed or the hold is decided; 422 with field
        paths if an edit does not match the tool's schema; the hold stays open.
        """
        fields, foreign = _read_decision(request)
        return idempotent(request, lambda: self._decide(request, fields, foreign))

    def _decide(
        self, request: Request, fields: dict[str, Any], foreign: TranslatedDecision | None
    ) -> StoredResponse:
        decision = _decision_request(request, fields)
        if foreign is not None:
            _check_fits(foreign, services.visible_hold(decision.user, decision.hold_id))
        result = services.decide(decision)
        return StoredResponse(200, json_text(ResumedSerializer(_resumed(result)).data))


def _read_decision(request: Request) -> tuple[dict[str, Any], TranslatedDecision | None]:
    """Parse the body into the fields of ResumeSerializer.

    Args:
        request: its body is in Holdpoint's format or in that of another product.

    Returns:
        The validated fields with the version (from the body or If-Match), and the parsed decision
        of the other product's format, or None.

    Raises:
        ValidationError, InvalidRequest: with the paths of the invalid fields.
    """
    body = object_body(request.data)
    foreign = None
    if is_foreign(body):
        foreign = _parse_foreign(body)
        own = {name: value for name, value in body.items() if name not in FOREIGN_FIELDS}
        body = {**own, **_translated(foreign, body)}
    serializer = ResumeSerializer(data=body)
    serializer.is_valid(raise_exception=True)
    fields = dict(serializer.validated_data)
    if "version" not in fields:
        version = if_match_version(request)
        if version is None:
            message = "say which version you saw, here or in If-Match"
            raise ValidationError({"version": [message]}, code="required")
        fields["version"] = version
    return fields, foreign


def _parse_foreign(body: dict[str, Any]) -> TranslatedDecision:
    try:
        return translate_decision(body)
    except UnknownDecisionFormat as error:
        problem = Problem(error.path, error.code, error.message)
        raise InvalidRequest((problem,)) from None


def _translated(foreign: TranslatedDecision, body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of ResumeSerializer for a decision in another format."""
    fields: dict[str, Any] = {"decision": foreign.decision}
    for name, value in (("edits", foreign.edits), ("comment", foreign.comment)):
        if value is None or value == "":
            continue
        if body.get(name) not in (None, ""):
            problem = Problem(name, "twice", "is given twice, in two vocabularies")
            raise InvalidRequest((problem,))
        fields[name] = value
    return fields


def _check_fits(foreign: TranslatedDecision, hold: Hold) -> None:
    """Raise InvalidRequest if a decision in another format does not apply to this hold."""
    if foreign.instead and hold.phase != "AFTER_EXECUTION":
        message = "only a hold after a task can take an answer in place of its output"
        raise InvalidRequest((Problem("decision", "no_output_yet", message),))
    if foreign.tool and foreign.tool not in (hold.target, hold.target.partition(".")[2]):
        message = f"this hold is about {hold.target!r}; another tool cannot be put in its place"
        raise InvalidRequest((Problem("edited_action.name", "another_tool", message),))


def _decision_request(request: Request, fields: dict[str, Any]) -> DecisionRequest:
    user = caller(request)
    return DecisionRequest(
        hold_id=_hold_id(user, fields),
        user=user,
        decision=fields["decision"],
        version=fields["version"],
        source="rest",
        edits=fields["edits"],
        set_output_null=fields["set_output_null"],
        comment=fields["comment"],
        grant_scope=fields["grant_scope"],
        grant_seconds=fields["grant_seconds"],
        standing=StandingTerms(**fields["standing"]) if fields["standing"] else None,
        undo_seconds=fields["undo_seconds"],
        token=token_of(request),
        confirmed_at=session_confirmed_at(request),
    )


def _hold_id(user: User, fields: dict[str, Any]) -> str:
    """Return the id of the hold that the fields name; it belongs to the execution they name."""
    if "node_id" in fields:
        return services.hold_of_node(user, fields["execution_id"], fields["node_id"])
    hold = services.visible_hold(user, fields["hold_id"])
    if hold.execution_id != fields["execution_id"]:
        raise services.HoldNotFound
    return hold.id


def _resumed(result: DecisionResult) -> dict[str, Any]:
    holds = present_state(result.hold_id)["holds"]
    return {
        "execution_id": result.execution_id,
        "hold_id": result.hold_id,
        "decision": result.decision,
        "edited": result.edited,
        "complete": result.complete,
        "undo_until": result.undo_until,
        "record_id": result.record.pk,
        "warnings": result.warnings,
        "status": result.status,
        "version": result.version,
        "holds": holds,
        "paused_node_id": (holds[0]["node_id"] or None) if holds else None,
        "paused_phase": (holds[0]["trigger_phase"] or None) if holds else None,
    }


class WithdrawView(APIView):
    """Withdraw a decision before it takes effect."""

    permission_classes = [HasScope("decide")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_withdraw",
        parameters=[IDEMPOTENCY_KEY],
        request=WithdrawSerializer,
        responses={200: WithdrawnSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request, hold_id: str) -> Response:
        """Withdraw the caller's decision, or their approval of a quorum; the hold is open again.

        The withdrawal gets a record, and the record of the decision stays.  409 with the present
        state if the decision has taken effect.
        """
        return idempotent(request, lambda: self._withdraw(request, hold_id))

    def _withdraw(self, request: Request, hold_id: str) -> StoredResponse:
        fields = validated_body(WithdrawSerializer, request)
        result = withdrawal.withdraw(
            hold_id=hold_id,
            user=caller(request),
            comment=fields["comment"],
            source="rest",
            token=token_of(request),
        )
        fields = {
            "hold_id": result.hold_id,
            "execution_id": result.execution_id,
            "what": result.what,
            "record_id": result.record.pk,
            "withdraws": result.record.withdraws_id,
            "status": result.status,
            "version": result.version,
        }
        return StoredResponse(200, json_text(WithdrawnSerializer(fields).data))


class SimilarView(APIView):
    """Past decisions about similar calls."""

    permission_classes = [HasScope("read")]
    parser_classes = [DecisionJSONParser]

    @extend_schema(
        operation_id="reviews_similar",
        request=SimilarSerializer,
        responses={200: SimilarAnswerSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        """Return what people decided about similar calls of a tool, and the outcome of each."""
        fields = validated_body(SimilarSerializer, request)
        found = episodes(
            caller(request),
            tool=fields["tool"],
            arguments=fields.get("arguments"),
            phase=fields.get("phase") or "",
            limit=fields["limit"],
        )
        return Response(SimilarAnswerSerializer({"results": found}).data)
