"""Routes below `/api/v1/`: executions, workflows, MCP servers, tokens."""

from django.urls import path

from workflows.approvals.api import (
    ApprovalsView,
    ApprovalView,
    CancelView,
    ResubmitView,
    ResultView,
)
from workflows.approvals.policies_api import ApprovalPoliciesView, ApprovalPolicyView
from workflows.webhooks.api import (
    DeliveriesView,
    DeliveryView,
    PingView,
    RedeliverView,
    ResumeView,
    RotateView,
    WebhooksView,
    WebhookView,
)

from .capabilities import CapabilitiesView, CapabilityView
from .commands import CommandsView
from .events import EventsView
from .executions import (
    CheckpointsView,
    DecisionsView,
    ExecutionsView,
    ExecutionView,
    ForkView,
    MessagesView,
)
from .grants import GrantsView, RevokeView
from .mcp_servers import McpServersView, McpServerSyncView, McpServerView
from .tokens import TokensView, TokenView
from .workflows import WorkflowsView, WorkflowView

_ONE = "executions/<str:execution_id>/"
_SERVER = "mcp-servers/<str:server_id>/"
_HOOK = "webhooks/<str:webhook_id>/"
_APPROVAL = "approvals/<str:approval_id>/"
_POLICY = "approval-policies/<str:policy_id>/"
_DELIVERY = f"{_HOOK}deliveries/<str:delivery_id>/"

urlpatterns = [
    path("executions/", ExecutionsView.as_view(), name="executions"),
    path(_ONE, ExecutionView.as_view(), name="execution"),
    path(f"{_ONE}checkpoints/", CheckpointsView.as_view(), name="execution-checkpoints"),
    path(f"{_ONE}decisions/", DecisionsView.as_view(), name="execution-decisions"),
    path(f"{_ONE}messages/", MessagesView.as_view(), name="execution-messages"),
    path(f"{_ONE}events/", EventsView.as_view(), name="execution-events"),
    path(f"{_ONE}commands/", CommandsView.as_view(), name="execution-commands"),
    path(f"{_ONE}fork/", ForkView.as_view(), name="execution-fork"),
    path("approvals/", ApprovalsView.as_view(), name="approvals"),
    path(_APPROVAL, ApprovalView.as_view(), name="approval"),
    path(f"{_APPROVAL}cancel/", CancelView.as_view(), name="approval-cancel"),
    path(f"{_APPROVAL}resubmit/", ResubmitView.as_view(), name="approval-resubmit"),
    path(f"{_APPROVAL}result/", ResultView.as_view(), name="approval-result"),
    path("approval-policies/", ApprovalPoliciesView.as_view(), name="approval-policies"),
    path(_POLICY, ApprovalPolicyView.as_view(), name="approval-policy"),
    path("workflows/", WorkflowsView.as_view(), name="workflows"),
    path("workflows/<str:name>/", WorkflowView.as_view(), name="workflow"),
    path("capabilities/", CapabilitiesView.as_view(), name="capabilities"),
    path("capabilities/<str:name>/", CapabilityView.as_view(), name="capability"),
    path("grants/", GrantsView.as_view(), name="grants"),
    path("grants/<str:grant_id>/revoke/", RevokeView.as_view(), name="grant-revoke"),
    path("mcp-servers/", McpServersView.as_view(), name="mcp-servers"),
    path(_SERVER, McpServerView.as_view(), name="mcp-server"),
    path(f"{_SERVER}sync/", McpServerSyncView.as_view(), name="mcp-server-sync"),
    path("tokens/", TokensView.as_view(), name="tokens"),
    path("tokens/<str:token_id>/", TokenView.as_view(), name="token"),
    path("webhooks/", WebhooksView.as_view(), name="webhooks"),
    path(_HOOK, WebhookView.as_view(), name="webhook"),
    path(f"{_HOOK}rotate/", RotateView.as_view(), name="webhook-rotate"),
    path(f"{_HOOK}resume/", ResumeView.as_view(), name="webhook-resume"),
    path(f"{_HOOK}ping/", PingView.as_view(), name="webhook-ping"),
    path(f"{_HOOK}deliveries/", DeliveriesView.as_view(), name="webhook-deliveries"),
    path(_DELIVERY, DeliveryView.as_view(), name="webhook-delivery"),
    path(f"{_DELIVERY}redeliver/", RedeliverView.as_view(), name="webhook-redeliver"),
]
