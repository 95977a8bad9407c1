"""Database models of reviews.  Import them from here."""

from .audit import (
    ANSWERS,
    Decision,
    DeniedAttempt,
    HumanReviewRecord,
    PayloadKey,
    RecordSet,
    RecordWords,
    SealedPayload,
    SecretReveal,
    open_payload,
)
from .backtests import Backtest
from .notifications import ChatHook, Notice, NoticeKind, NoticeMessage, NoticePreference
from .planner import PlanDraft
from .queue import ClaimStart, ReviewClaim, ReviewPresence, SavedView
from .retention import ErasableRun, LegalHold, RetentionEntry, RetentionPolicy
from .security import SecurityEvent, SecurityExport
from .slack import (
    SlackAccount,
    SlackChannel,
    SlackLinkCode,
    SlackMessage,
    SlackWorkspace,
)

__all__ = [
    "ANSWERS",
    "Backtest",
    "ChatHook",
    "ClaimStart",
    "Decision",
    "DeniedAttempt",
    "ErasableRun",
    "HumanReviewRecord",
    "LegalHold",
    "Notice",
    "NoticeKind",
    "NoticeMessage",
    "NoticePreference",
    "PayloadKey",
    "PlanDraft",
    "RecordSet",
    "RecordWords",
    "RetentionEntry",
    "RetentionPolicy",
    "ReviewClaim",
    "ReviewPresence",
    "SavedView",
    "SealedPayload",
    "SecretReveal",
    "SecurityEvent",
    "SecurityExport",
    "SlackAccount",
    "SlackChannel",
    "SlackLinkCode",
    "SlackMessage",
    "SlackWorkspace",
    "open_payload",
]
