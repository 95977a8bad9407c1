"""Database models of workflows.  Import them from here."""

from .absences import Absence
from .approvals import Approval, ApprovalPolicy
from .calendars import BusinessCalendar
from .commands import CommandLog, IdempotencyKey, QueuedCommand
from .executions import (
    QUEUE_KINDS,
    UNDER_WAY,
    Checkpoint,
    Execution,
    ExecutionEvent,
    ExecutionReceipt,
    LearningAttempt,
    PlanRevision,
    TaskAttempt,
)
from .gates import Gate, GateCall, GatePolicy, GateTool
from .groups import ROLE_GROUPS, NamedGroup
from .holds import Hold
from .mcp_servers import McpServer
from .metrics import EventCursor, Total
from .permissions import Capability, Grant
from .review_rules import RuleVersion
from .security_events import SecurityEvent
from .speculation import Speculation
from .tokens import ApiToken, SignInAlert, UnknownTokens
from .visibility import Audience, ExecutionWords, Shaper, Waiting
from .webhooks import WebhookDelivery, WebhookEndpoint
from .workflows import Workflow, WorkflowVersion

__all__ = [
    "QUEUE_KINDS",
    "ROLE_GROUPS",
    "UNDER_WAY",
    "Absence",
    "ApiToken",
    "Approval",
    "ApprovalPolicy",
    "Audience",
    "BusinessCalendar",
    "Capability",
    "Checkpoint",
    "CommandLog",
    "EventCursor",
    "Execution",
    "ExecutionEvent",
    "ExecutionReceipt",
    "ExecutionWords",
    "Gate",
    "GateCall",
    "GatePolicy",
    "GateTool",
    "Grant",
    "Hold",
    "IdempotencyKey",
    "LearningAttempt",
    "McpServer",
    "NamedGroup",
    "PlanRevision",
    "QueuedCommand",
    "RuleVersion",
    "SecurityEvent",
    "Shaper",
    "SignInAlert",
    "Speculation",
    "TaskAttempt",
    "Total",
    "UnknownTokens",
    "Waiting",
    "WebhookDelivery",
    "WebhookEndpoint",
    "Workflow",
    "WorkflowVersion",
]
