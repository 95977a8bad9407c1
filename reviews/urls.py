"""Addresses of the pages."""

from django.urls import path, register_converter
from django.urls.converters import PathConverter

from .absences import views as absences_views
from .answer_links import views as answer_link_views
from .audit import views as audit_views
from .authoring import editor_views, version_pages
from .authoring import views as planner_views
from .backtests import views as backtests_views
from .components.assets import stylesheet_view
from .decisions import views as decisions_views
from .insights import views as insights_views
from .integrations import capabilities, grants, tokens, webhooks
from .notifications import views as notifications_views
from .queue import views as queue_views
from .runs import views as runs_views
from .search import views as search_views
from .slack import views as slack_views


class ToolName(PathConverter):
    """The name of a tool; earlier versions stored names with line breaks, which `path` refuses."""

    regex = r"[\s\S]+"


register_converter(ToolName, "tool")

app_name = "reviews"
urlpatterns = [
    path("stylesheet/<slug:digest>.css", stylesheet_view, name="stylesheet"),
    path("review/", queue_views.queue, name="queue"),
    path(
        "review/<int:execution_id>/<str:hold_id>/",
        decisions_views.DecisionView.as_view(),
        name="decision",
    ),
    path(
        "review/<int:execution_id>/<str:hold_id>/status/",
        decisions_views.decision_status,
        name="decision_status",
    ),
    path("review/bulk/", queue_views.bulk, name="bulk"),
    path("review/views/", queue_views.save, name="save_view"),
    path("review/views/<int:view_id>/remove/", queue_views.remove, name="remove_view"),
    path("review/<int:execution_id>/<str:hold_id>/claim/", queue_views.claim, name="claim"),
    path("review/<int:execution_id>/<str:hold_id>/looking/", queue_views.looking, name="looking"),
    path("review/<int:execution_id>/<str:hold_id>/impact/", decisions_views.impact, name="impact"),
    path(
        "review/<int:execution_id>/<str:hold_id>/preview/",
        decisions_views.preview,
        name="preview",
    ),
    path(
        "review/<int:execution_id>/<str:hold_id>/withdraw/",
        decisions_views.withdraw,
        name="withdraw",
    ),
    path(
        "review/<int:execution_id>/<str:hold_id>/precedents/",
        decisions_views.similar_decisions,
        name="precedents",
    ),
    path(
        "review/<int:execution_id>/<str:hold_id>/extend/",
        queue_views.ExtendView.as_view(),
        name="extend",
    ),
    path("answer/", answer_link_views.AnswerLinkView.as_view(), name="answer"),
    path("answer/review/", answer_link_views.AnswerView.as_view(), name="answer_review"),
    path("absences/", absences_views.absences, name="absences"),
    path("absences/<int:absence_id>/end/", absences_views.end, name="end_absence"),
    path("search/", search_views.search_page, name="search"),
    path("runs/", runs_views.runs, name="runs"),
    path("runs/demo/", runs_views.start_demo, name="start_demo"),
    path("runs/<int:execution_id>/", runs_views.run, name="run"),
    path("runs/<int:execution_id>/learned/", planner_views.learned, name="learned"),
    path("runs/<int:execution_id>/commands/", runs_views.command, name="run_command"),
    path(
        "runs/<int:execution_id>/plan/<int:number>/",
        runs_views.plan_change,
        name="plan_change",
    ),
    path("runs/<int:execution_id>/ahead/", runs_views.resume_speculation, name="work_ahead"),
    path("runs/<int:execution_id>/fork/<int:layer>/", runs_views.ForkView.as_view(), name="fork"),
    path("plan/", planner_views.PlannerView.as_view(), name="planner"),
    path("workflows/", planner_views.workflows, name="workflows"),
    path("workflows/edit/", editor_views.EditorView.as_view(), name="editor"),
    path("workflows/edit/tools/", editor_views.editor_tools, name="editor_tools"),
    path("workflows/<int:workflow_id>/", planner_views.workflow, name="workflow"),
    path(
        "workflows/<int:workflow_id>/versions/",
        version_pages.VersionsView.as_view(),
        name="workflow_versions",
    ),
    path(
        "workflows/<int:workflow_id>/versions/<int:number>/restore/",
        version_pages.RestoreView.as_view(),
        name="workflow_restore",
    ),
    path(
        "workflows/<int:workflow_id>/export.json",
        version_pages.export,
        {"kind": "json"},
        name="workflow_json",
    ),
    path(
        "workflows/<int:workflow_id>/export.yaml",
        version_pages.export,
        {"kind": "yaml"},
        name="workflow_yaml",
    ),
    path("workflows/<int:workflow_id>/rules/", backtests_views.rules, name="workflow_rules"),
    path("workflows/<int:workflow_id>/start/", runs_views.start, name="start"),
    path("runs/<int:execution_id>/capability/", capabilities.create, name="make_capability"),
    path("grants/", grants.grant_list, name="grants"),
    path("grants/<int:grant_id>/revoke/", grants.revoke_grant, name="revoke_grant"),
    path("history/", audit_views.history, name="history"),
    path("history/export/", audit_views.export, name="export_history"),
    path("history/audit-key/", audit_views.audit_key, name="audit_key"),
    path("history/denied/", audit_views.denied, name="denied"),
    path("history/reveals/", audit_views.reveals, name="reveals"),
    path("reveal/", audit_views.show, name="reveal"),
    path("history/<int:record_id>/", audit_views.record, name="record"),
    path("history/spared/", backtests_views.spared, name="spared"),
    path("insights/", insights_views.insights, name="insights"),
    path("notifications/", notifications_views.notices, name="notices"),
    path("notifications/bell/", notifications_views.bell, name="bell"),
    path("notifications/read/", notifications_views.read_notices, name="notices_read"),
    path(
        "notifications/preferences/",
        notifications_views.notice_preferences,
        name="notice_preferences",
    ),
    path("notifications/slack/code/", slack_views.create_link_code, name="slack_link_code"),
    path(
        "notifications/slack/<int:account_id>/unlink/",
        slack_views.unlink,
        name="slack_unlink",
    ),
    path("chat/slack/<int:workspace_id>/", slack_views.SlackView.as_view(), name="slack"),
    path("insights/backtest/", backtests_views.backtest, name="backtest"),
    path("insights/backtest/check/", backtests_views.check, name="backtest_check"),
    path("insights/backtest/<int:backtest_id>/", backtests_views.report, name="backtest_report"),
    path(
        "insights/backtest/<int:backtest_id>/progress/",
        backtests_views.progress,
        name="backtest_progress",
    ),
    path(
        "insights/backtest/<int:backtest_id>/publish/",
        backtests_views.publish,
        name="backtest_publish",
    ),
    path("tokens/", tokens.token_list, name="tokens"),
    path("tokens/<int:token_id>/revoke/", tokens.revoke_token, name="revoke_token"),
    path("tools/", planner_views.tools, name="tools"),
    path("tools/<tool:name>/", planner_views.tool, name="tool"),
    path("webhooks/", webhooks.webhook_list, name="webhooks"),
    path("webhooks/<int:webhook_id>/", webhooks.webhook, name="webhook"),
    path("webhooks/<int:webhook_id>/action/", webhooks.action, name="webhook_action"),
    path(
        "webhooks/<int:webhook_id>/deliveries/<int:delivery_id>/redeliver/",
        webhooks.redeliver,
        name="webhook_redeliver",
    ),
]
