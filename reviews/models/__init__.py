"""Database models of reviews.  Import them from here."""

from .audit import (
    ANSWERS,
    Decision,
    DeniedAttempt,
    HumanReviewRecord,
    RecordSet,
    RecordWords,
    SecretReveal,
)
from .backtests import Backtest
from .notifications import ChatHook, Notice, NoticeKind, NoticeMessage, NoticePreference
from .planner import PlanDraft
from .queue import ClaimStart, ReviewClaim, ReviewPresence, SavedView

__all__ = [
    "ANSWERS",
    "Backtest",
    "ChatHook",
    "ClaimStart",
    "Decision",
    "DeniedAttempt",
    "HumanReviewRecord",
    "Notice",
    "NoticeKind",
    "NoticeMessage",
    "NoticePreference",
    "PlanDraft",
    "RecordSet",
    "RecordWords",
    "ReviewClaim",
    "ReviewPresence",
    "SavedView",
    "SecretReveal",
]
