"""Backtests and the rules of a workflow over REST."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews.backtests import services
from reviews.models import Backtest
from workflows.api.executions import parse_id
from workflows.api.idempotency_header import idempotent
from workflows.api.openapi import BODY, IDEMPOTENCY_KEY, problems
from workflows.api.parsers import query_params, reject_query_params, validated_body
from workflows.api.permission_classes import HasRole, HasScope, caller, require
from workflows.api.problems import register
from workflows.api.serializers import PlainSerializer, StrictSerializer
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.validation import Problem
from workflows.executions import access
from workflows.executions.idempotency import StoredResponse, json_text
from workflows.executions.validation import InvalidRequest
from workflows.models import RuleVersion, Workflow
from workflows.review_rules import active_rules
from workflows.review_rules import publish as review_rules_publish

register(review_rules_publish.RulesChanged, status=409, code="stale_version")

_ID = OpenApiParameter("backtest_id", str, OpenApiParameter.PATH, pattern="^[0-9]{1,19}$")
_NAME = OpenApiParameter(
    "workflow_name", str, OpenApiParameter.PATH, pattern="^[-a-zA-Z0-9_]{1,100}$"
)
_RULES = serializers.ListField(
    child=serializers.DictField(),
    max_length=50,
    help_text="Each: name, tools, tasks, phase, skip_when, sample. In this order.",
)
_MAX_INTEGER = 2**31 - 1
_NOT_ALLOWED = "Auditors, operators and admins can read and create backtests."


class BacktestRowSerializer(PlainSerializer):
    """A backtest in a list.  `looked` of `total` reviews have been evaluated."""

    id = serializers.CharField()
    workflow = serializers.CharField(source="workflow.name")
    status = serializers.ChoiceField(choices=Backtest.Status.choices)
    looked = serializers.IntegerField()
    total = serializers.IntegerField()
    rules = serializers.ListField(child=serializers.DictField())
    base_version = serializers.IntegerField()
    since = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    author = serializers.CharField(source="author_name")
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class BacktestSerializer(BacktestRowSerializer):
    """A backtest with its report and the report's digest; both are empty until it is DONE."""

    report = serializers.SerializerMethodField()
    digest = serializers.CharField()
    error = serializers.CharField()

    def get_report(self, backtest: Backtest) -> dict[str, Any]:
        return dict(backtest.report) if backtest.status == Backtest.Status.DONE else {}


class DraftSerializer(StrictSerializer):
    """Rules to test against the reviews of a workflow decided from `since` to `until`."""

    workflow = serializers.CharField(max_length=100)
    rules = _RULES
    since = serializers.DateTimeField(required=False, allow_null=True, default=None)
    until = serializers.DateTimeField(required=False, allow_null=True, default=None)


class OfWorkflowSerializer(PlainSerializer):
    """Filters of the list."""

    workflow = serializers.CharField(required=False, max_length=100)


class RulesSerializer(PlainSerializer):
    """Published rules with their author and report."""

    version = serializers.IntegerField(source="number")
    rules = serializers.ListField(child=serializers.DictField())
    digest = serializers.CharField()
    backtest = serializers.SerializerMethodField()
    backtest_digest = serializers.CharField(source="report_digest")
    republished = serializers.IntegerField(allow_null=True)
    author = serializers.CharField(source="author_name")
    comment = serializers.CharField()
    created_at = serializers.DateTimeField()

    def get_backtest(self, version: RuleVersion) -> str | None:
        return str(version.report) if version.report is not None else None


class PublishSerializer(StrictSerializer):
    """One of three: the rules of a `backtest`, an older version again (`republish`), or none
    (`rules` as an empty list).  `version` is the one in force as you saw it (0 for none); a
    backtest brings its own.
    """

    backtest = serializers.CharField(max_length=19, required=False)
    republish = serializers.IntegerField(min_value=1, max_value=_MAX_INTEGER, required=False)
    rules = serializers.ListField(max_length=0, required=False)
    version = serializers.IntegerField(min_value=0, max_value=_MAX_INTEGER, required=False)
    comment = serializers.CharField(
        max_length=review_rules_publish.MAX_COMMENT, required=False, allow_blank=True, default=""
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        given = [name for name in ("backtest", "republish", "rules") if name in attrs]
        if len(given) != 1:
            message = "give exactly one of backtest, republish and rules"
            raise serializers.ValidationError({(given or ["backtest"])[-1]: [message]})
        if given != ["backtest"] and "version" not in attrs:
            raise serializers.ValidationError({"version": ["give the active version"]})
        return attrs


class BacktestsView(ListAPIView[Backtest]):
    """List and create backtests."""

    permission_classes = (HasRole, HasScope("decide"))
    orderings = {"-created_at": ("-id",), "created_at": ("id",)}
    serializer_class = BacktestRowSerializer
    queryset = Backtest.objects.none()

    def get_queryset(self) -> QuerySet[Backtest]:
        name = query_params(self.request, OfWorkflowSerializer).get("workflow")
        rows = services.visible(caller(self.request))
        return rows.filter(workflow__name=name) if name else rows

    @extend_schema(
        operation_id="backtests_list",
        summary="Backtests, newest first",
        parameters=[OfWorkflowSerializer],
        responses={200: BacktestRowSerializer(many=True), **problems(403, 404, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        require(access.may_backtest(request.user), _NOT_ALLOWED)
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="backtests_create",
        summary="Test rules against past reviews",
        description="A worker runs the backtest. Poll it until its status is DONE or FAILED.",
        parameters=[IDEMPOTENCY_KEY],
        request=DraftSerializer,
        responses={201: BacktestSerializer, **problems(403, 409, *BODY)},
    )
    def post(self, request: Request) -> Response:
        require(access.may_backtest(request.user), _NOT_ALLOWED)
        return idempotent(request, lambda: self._create(request))

    def _create(self, request: Request) -> StoredResponse:
        data = validated_body(DraftSerializer, request)
        name = data.pop("workflow")
        workflow = access.workflows_for(request.user).filter(name=name).first()
        if workflow is None:
            problem = Problem("workflow", "unknown_workflow", f"there is no workflow {name!r}")
            raise InvalidRequest((problem,))
        with transaction.atomic():
            created = services.start(user=caller(request), workflow=workflow, **data)
        created.refresh_from_db()
        location = reverse("api-backtest", kwargs={"backtest_id": str(created.pk)})
        return StoredResponse(
            status=201, text=json_text(BacktestSerializer(created).data), location=location
        )


class BacktestView(APIView):
    """Read a backtest."""

    permission_classes = (HasRole, HasScope("decide"))

    @extend_schema(
        operation_id="backtests_get",
        summary="One backtest with its report",
        parameters=[_ID],
        responses={200: BacktestSerializer, **problems(403, 404)},
    )
    def get(self, request: Request, backtest_id: str) -> Response:
        reject_query_params(request)
        return Response(BacktestSerializer(_backtest(request, backtest_id)).data)


class RulesView(ListAPIView[RuleVersion]):
    """List and publish the review rules of a workflow."""

    permission_classes = (HasRole, HasScope("decide"))
    orderings = {"-version": ("-id",), "version": ("id",)}
    serializer_class = RulesSerializer
    queryset = RuleVersion.objects.none()

    def get_queryset(self) -> QuerySet[RuleVersion]:
        query_params(self.request, PlainSerializer)
        return active_rules.versions(_workflow(self.request, self.kwargs["workflow_name"]))

    @extend_schema(
        operation_id="rules_list",
        summary="Versions of the review rules, newest first: that one is in force",
        parameters=[_NAME],
        responses={200: RulesSerializer(many=True), **problems(403, 404, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="rules_publish",
        summary="Publish review rules",
        description="For executions that start from then on. Operators and admins only.",
        parameters=[_NAME, IDEMPOTENCY_KEY],
        request=PublishSerializer,
        responses={201: RulesSerializer, **problems(403, 404, 409, *BODY)},
    )
    def post(self, request: Request, workflow_name: str) -> Response:
        workflow = _workflow(request, workflow_name)
        require(access.may_publish_rules(request.user), "Operators and admins can publish rules.")
        return idempotent(request, lambda: self._publish(request, workflow))

    def _publish(self, request: Request, workflow: Workflow) -> StoredResponse:
        fields = validated_body(PublishSerializer, request)
        created = _published(request, workflow, fields)
        created.refresh_from_db()
        return StoredResponse(status=201, text=json_text(RulesSerializer(created).data))


def _published(request: Request, workflow: Workflow, data: dict[str, Any]) -> RuleVersion:
    user, comment = caller(request), data["comment"]
    if "backtest" in data:
        found = services.visible(user).filter(workflow=workflow)
        backtest = found.filter(pk=parse_natural_number(data["backtest"]) or 0).first()
        if backtest is None:
            problem = Problem("backtest", "unknown_backtest", "there is none of this workflow")
            raise InvalidRequest((problem,))
        return services.publish(user=user, backtest=backtest, source="rest", comment=comment)
    if "republish" in data:
        return review_rules_publish.republish(
            actor=user,
            workflow=workflow,
            number=data["republish"],
            expected=data["version"],
            source="rest",
            comment=comment,
        )
    return review_rules_publish.publish(
        actor=user,
        workflow=workflow,
        rules=[],
        expected=data["version"],
        source="rest",
        comment=comment,
    )


def _backtest(request: Request, backtest_id: str) -> Backtest:
    found = services.visible(caller(request)).filter(pk=parse_id(backtest_id)).first()
    if found is None:
        raise Http404
    return found


def _workflow(request: Request, name: str) -> Workflow:
    found = (
        access.workflows_for(request.user).filter(name=name).first() if "\0" not in name else None
    )
    if found is None:
        raise Http404
    return found
