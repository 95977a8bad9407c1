"""Addresses below /api/v1/."""

from django.urls import path

from . import backtests, bulk, notices, views

urlpatterns = [
    path("reviews/pending/", views.PendingView.as_view(), name="api-reviews-pending"),
    path(
        "reviews/pending/<int:execution_id>/",
        views.PendingContextView.as_view(),
        name="api-reviews-context",
    ),
    path("reviews/resume/", views.ResumeView.as_view(), name="api-reviews-resume"),
    path("reviews/holds/<str:hold_id>/claim/", views.ClaimView.as_view(), name="api-reviews-claim"),
    path("reviews/bulk/", bulk.BulkView.as_view(), name="api-reviews-bulk"),
    path(
        "reviews/holds/<str:hold_id>/assign/",
        bulk.AssignView.as_view(),
        name="api-reviews-assign",
    ),
    path(
        "reviews/holds/<str:hold_id>/extend/",
        views.ExtendView.as_view(),
        name="api-reviews-extend",
    ),
    path(
        "reviews/holds/<str:hold_id>/release/",
        views.ReleaseView.as_view(),
        name="api-reviews-release",
    ),
    path("notifications/", notices.NotificationsView.as_view(), name="api-notifications"),
    path(
        "notifications/read/",
        notices.NotificationsReadView.as_view(),
        name="api-notifications-read",
    ),
    path(
        "notifications/preferences/",
        notices.NotificationPreferencesView.as_view(),
        name="api-notifications-preferences",
    ),
    path("backtests/", backtests.BacktestsView.as_view(), name="api-backtests"),
    path("backtests/<str:backtest_id>/", backtests.BacktestView.as_view(), name="api-backtest"),
    path("workflows/<str:workflow_name>/rules/", backtests.RulesView.as_view(), name="api-rules"),
    path(
        "reviews/holds/<str:hold_id>/withdraw/",
        views.WithdrawView.as_view(),
        name="api-reviews-withdraw",
    ),
    path("reviews/reveal/", views.RevealView.as_view(), name="api-reviews-reveal"),
    path("reviews/history/", views.HistoryView.as_view(), name="api-reviews-history"),
    path("reviews/history/<int:pk>/", views.RecordView.as_view(), name="api-reviews-record"),
]
