"""Addresses of the pages."""

from django.urls import path

from .views import (
    capabilities,
    decision,
    extending,
    forks,
    grants,
    history,
    queue,
    runs,
    starting,
    tools,
    workflows,
)

app_name = "reviews"
urlpatterns = [
    path("review/", queue.queue, name="queue"),
    path(
        "review/<int:execution_id>/<str:hold_id>/",
        decision.DecisionView.as_view(),
        name="decision",
    ),
    path(
        "review/<int:execution_id>/<str:hold_id>/status/",
        decision.decision_status,
        name="decision_status",
    ),
    path(
        "review/<int:execution_id>/<str:hold_id>/extend/",
        extending.ExtendView.as_view(),
        name="extend",
    ),
    path("runs/", runs.runs, name="runs"),
    path("runs/demo/", starting.start_demo, name="start_demo"),
    path("runs/<int:execution_id>/", runs.run, name="run"),
    path("runs/<int:execution_id>/commands/", starting.command, name="run_command"),
    path("runs/<int:execution_id>/fork/<int:layer>/", forks.ForkView.as_view(), name="fork"),
    path("runs/<int:left_id>/compare/<int:right_id>/", forks.compare, name="compare"),
    path("workflows/", workflows.workflows, name="workflows"),
    path("workflows/<int:workflow_id>/", workflows.workflow, name="workflow"),
    path("workflows/<int:workflow_id>/start/", starting.start, name="start"),
    path("runs/<int:execution_id>/capability/", capabilities.make, name="make_capability"),
    path("capabilities/", capabilities.capabilities, name="capabilities"),
    path("grants/", grants.grants, name="grants"),
    path("grants/<int:grant_id>/revoke/", grants.revoke_grant, name="revoke_grant"),
    path("history/", history.history, name="history"),
    path("history/<int:record_id>/", history.record, name="record"),
    path("tools/", tools.tools, name="tools"),
]
