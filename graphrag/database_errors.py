"""Answers instead of errors when the database cannot serve the tool graph."""

import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from django.db import DatabaseError, connection, transaction

Answer = TypeVar("Answer")

logger = logging.getLogger(__name__)


def answered(ask: Callable[[], Answer], instead: Callable[[str], Answer]) -> Answer:
    """What ``ask`` gives; when the database refuses, what ``instead`` makes of the reason.

    A transaction that is open around the question stays usable.
    """
    try:
        with transaction.atomic() if connection.in_atomic_block else nullcontext():
            return ask()
    except DatabaseError as error:
        logger.exception("the tool graph cannot be asked")
        return instead(f"The tool graph cannot be asked now: {first_line(error)}.")


def first_line(error: BaseException) -> str:
    """The first line of an error's text; PostgreSQL adds the statement below it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
