"""URLs below /api/v1/."""

from django.urls import path

from reviews.audit import api as audit_api
from reviews.authoring import api as planner_api
from reviews.backtests import api as backtests_api
from reviews.decisions import api as decisions_api
from reviews.notifications import api as notifications_api
from reviews.queue import api as queue_api
from reviews.retention import api as retention_api

urlpatterns = [
    path("reviews/pending/", queue_api.PendingView.as_view(), name="api-reviews-pending"),
    path(
        "reviews/pending/<int:execution_id>/",
        decisions_api.PendingContextView.as_view(),
        name="api-reviews-context",
    ),
    path("reviews/similar/", decisions_api.SimilarView.as_view(), name="api-reviews-similar"),
    path("reviews/resume/", decisions_api.ResumeView.as_view(), name="api-reviews-resume"),
    path(
        "reviews/holds/<str:hold_id>/claim/",
        queue_api.ClaimView.as_view(),
        name="api-reviews-claim",
    ),
    path("reviews/bulk/", queue_api.BulkView.as_view(), name="api-reviews-bulk"),
    path(
        "reviews/holds/<str:hold_id>/assign/",
        queue_api.AssignView.as_view(),
        name="api-reviews-assign",
    ),
    path(
        "reviews/holds/<str:hold_id>/extend/",
        queue_api.ExtendView.as_view(),
        name="api-reviews-extend",
    ),
    path(
        "reviews/holds/<str:hold_id>/release/",
        queue_api.ReleaseView.as_view(),
        name="api-reviews-release",
    ),
    path("notifications/", notifications_api.NotificationsView.as_view(), name="api-notifications"),
    path(
        "notifications/read/",
        notifications_api.NotificationsReadView.as_view(),
        name="api-notifications-read",
    ),
    path(
        "notifications/preferences/",
        notifications_api.NotificationPreferencesView.as_view(),
        name="api-notifications-preferences",
    ),
    path("backtests/", backtests_api.BacktestsView.as_view(), name="api-backtests"),
    path("backtests/<str:backtest_id>/", backtests_api.BacktestView.as_view(), name="api-backtest"),
    path(
        "workflows/<str:workflow_name>/rules/", backtests_api.RulesView.as_view(), name="api-rules"
    ),
    path(
        "workflows/<str:workflow_name>/versions/",
        planner_api.VersionsView.as_view(),
        name="api-workflow-versions",
    ),
    path(
        "workflows/<str:workflow_name>/versions/<int:number>/",
        planner_api.VersionView.as_view(),
        name="api-workflow-version",
    ),
    path(
        "workflows/<str:workflow_name>/versions/<int:number>/restore/",
        planner_api.VersionRestoreView.as_view(),
        name="api-workflow-restore",
    ),
    path(
        "reviews/holds/<str:hold_id>/withdraw/",
        decisions_api.WithdrawView.as_view(),
        name="api-reviews-withdraw",
    ),
    path(
        "retention-policies/",
        retention_api.RetentionPoliciesView.as_view(),
        name="api-retention-policies",
    ),
    path(
        "retention-policies/<str:retention_policy_id>/",
        retention_api.RetentionPolicyView.as_view(),
        name="api-retention-policy",
    ),
    path(
        "retention-policies/<str:retention_policy_id>/preview/",
        retention_api.RetentionPreviewView.as_view(),
        name="api-retention-preview",
    ),
    path("legal-holds/", retention_api.LegalHoldsView.as_view(), name="api-legal-holds"),
    path(
        "legal-holds/<str:legal_hold_id>/",
        retention_api.LegalHoldView.as_view(),
        name="api-legal-hold",
    ),
    path(
        "legal-holds/<str:legal_hold_id>/lift/",
        retention_api.LegalHoldLiftView.as_view(),
        name="api-legal-hold-lift",
    ),
    path("reviews/reveal/", audit_api.RevealView.as_view(), name="api-reviews-reveal"),
    path("reviews/history/", audit_api.HistoryView.as_view(), name="api-reviews-history"),
    path("reviews/history/<int:pk>/", audit_api.RecordView.as_view(), name="api-reviews-record"),
]
