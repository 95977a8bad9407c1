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
from .chat import (
    ChatMessage,
    LinkedAccount,
    SlackAccount,
    SlackChannel,
    SlackLinkCode,
    SlackMessage,
    SlackWorkspace,
    TeamsAccount,
    TeamsBot,
    TeamsMessage,
)
from .notifications import ChatHook, Notice, NoticeKind, NoticeMessage, NoticePreference
from .people import ProvisionedGroup, ProvisionedUser
from .planner import PlanDraft
from .queue import ClaimStart, ReviewClaim, ReviewPresence, SavedView
from .retention import ErasableRun, LegalHold, RetentionEntry, RetentionPolicy

__all__ = [
    "ANSWERS",
    "Backtest",
    "ChatHook",
    "ChatMessage",
    "ClaimStart",
    "Decision",
    "DeniedAttempt",
    "ErasableRun",
    "HumanReviewRecord",
    "LegalHold",
    "LinkedAccount",
    "Notice",
    "NoticeKind",
    "NoticeMessage",
    "NoticePreference",
    "PayloadKey",
    "PlanDraft",
    "ProvisionedGroup",
    "ProvisionedUser",
    "RecordSet",
    "RecordWords",
    "RetentionEntry",
    "RetentionPolicy",
    "ReviewClaim",
    "ReviewPresence",
    "SavedView",
    "SealedPayload",
    "SecretReveal",
    "SlackAccount",
    "SlackChannel",
    "SlackLinkCode",
    "SlackMessage",
    "SlackWorkspace",
    "TeamsAccount",
    "TeamsBot",
    "TeamsMessage",
    "open_payload",
]
