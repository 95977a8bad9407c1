"""Routes of the AuthZEN profile; the draft writes them without a slash at the end."""

from django.urls import path

from .authzen_api import (
    AccessRequestsView,
    CancelTaskView,
    EvaluationView,
    KeysView,
    MetadataView,
    TaskView,
)

urlpatterns = [
    path(".well-known/authzen-configuration", MetadataView.as_view(), name="authzen-metadata"),
    path("access/v1/evaluation", EvaluationView.as_view(), name="authzen-evaluation"),
    path("access/v1/jwks", KeysView.as_view(), name="authzen-keys"),
    path("access/v1/requests", AccessRequestsView.as_view(), name="authzen-requests"),
    path("access/v1/requests/<str:task_id>", TaskView.as_view(), name="authzen-task"),
    path(
        "access/v1/requests/<str:task_id>/cancel", CancelTaskView.as_view(), name="authzen-cancel"
    ),
]
