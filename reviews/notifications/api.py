"""REST endpoints for the caller's own notifications and their settings."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from reviews.models import Notice, NoticeKind
from reviews.notifications import inbox, notice_text
from reviews.notifications.preferences import preferences_of, save_preferences
from workflows.api.openapi import BODY, problems
from workflows.api.parsers import query_params, reject_query_params, validated_body
from workflows.api.permission_classes import HasScope, caller
from workflows.api.serializers import RequestIdField, StrictSerializer

_MAX_ITEMS = 200


class NoticeQuery(serializers.Serializer[Any]):
    """`unread=true` returns only unread notices."""

    unread = serializers.BooleanField(default=False)


class NoticeSerializer(serializers.Serializer[Notice]):
    """One notice: a sentence and its review."""

    id = serializers.CharField()
    kind = serializers.ChoiceField(choices=NoticeKind.choices)
    sentence = serializers.SerializerMethodField()
    execution_id = serializers.CharField()
    hold_id = serializers.CharField()
    url = serializers.SerializerMethodField()
    actor = serializers.CharField()
    created_at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)

    def get_sentence(self, notice: Notice) -> str:
        return notice_text.sentence(notice.kind, notice.hold, notice.actor, notice.detail)

    def get_url(self, notice: Notice) -> str:
        """Path of the review's page."""
        return notice_text.review_path(notice.hold)


class ReadSerializer(StrictSerializer):
    """`ids` of notices, or `everything`."""

    ids = serializers.ListField(
        child=RequestIdField(),
        required=False,
        default=list,
        max_length=_MAX_ITEMS,
    )
    everything = serializers.BooleanField(required=False, default=False)


class MarkedSerializer(serializers.Serializer[Any]):
    """How many were marked, and how many are unread now (counted up to 100)."""

    marked = serializers.IntegerField()
    unread = serializers.IntegerField()


class WishesSerializer(StrictSerializer):
    """Kinds that are shown in the product, and kinds that are sent by e-mail."""

    shown = serializers.ListField(child=serializers.ChoiceField(choices=NoticeKind.choices))
    mailed = serializers.ListField(child=serializers.ChoiceField(choices=NoticeKind.choices))


class NotificationsView(ListAPIView[Notice]):
    """The caller's notices."""

    serializer_class = NoticeSerializer
    permission_classes = [HasScope("read")]
    queryset = Notice.objects.none()

    @extend_schema(
        operation_id="notifications_list",
        parameters=[OpenApiParameter("unread", bool, description="Only unread notices.")],
        responses={200: NoticeSerializer(many=True), **problems(403, 422)},
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """My notices of runs that I may see, newest first."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Notice]:
        query = query_params(self.request, NoticeQuery)
        return inbox.notices_of(caller(self.request), unread=query["unread"])


class NotificationsReadView(APIView):
    """Mark the caller's notices as read."""

    permission_classes = [HasScope("run")]

    @extend_schema(
        operation_id="notifications_read",
        request=ReadSerializer,
        responses={200: MarkedSerializer, **problems(403, *BODY)},
    )
    def post(self, request: Request) -> Response:
        """Mark some of my notices, or all, as read; ids of others count for nothing."""
        fields = validated_body(ReadSerializer, request)
        user = caller(request)
        marked = inbox.mark_read(user, **fields)
        return Response({"marked": marked, "unread": inbox.unread_count(user)})


class NotificationPreferencesView(APIView):
    """The caller's notification settings."""

    permission_classes = [HasScope("run")]

    @extend_schema(
        operation_id="notifications_preferences",
        responses={200: WishesSerializer, **problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Which kinds are shown to me and which are mailed."""
        reject_query_params(request)
        return Response(self._preferences(request))

    @extend_schema(
        operation_id="notifications_preferences_update",
        request=WishesSerializer,
        responses={200: WishesSerializer, **problems(403, *BODY)},
    )
    def put(self, request: Request) -> Response:
        """Replace both lists."""
        fields = validated_body(WishesSerializer, request)
        save_preferences(user=caller(request), **fields)
        return Response(self._preferences(request))

    def _preferences(self, request: Request) -> dict[str, list[str]]:
        preferences = preferences_of(caller(request))
        kinds = NoticeKind.values
        return {
            "shown": [kind for kind in kinds if preferences.shows(kind)],
            "mailed": [kind for kind in kinds if kind in preferences.mailed],
        }
