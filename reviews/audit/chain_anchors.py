"""Anchors: signed heads of the audit chains, stored outside the database.

A head holds the ends of both chains at one moment: `{"at", "sequence", "hash", "receipts_sequence",
"receipts_hash", "signature"}`.  The sweeper process signs one at least every minute and when it
stops, and appends it to a file and to the log, as configured.  Without a key there are none.
"""

from __future__ import annotations

import json
import logging
import threading
from datetime import UTC
from typing import Any, Final

from django.db import Error, connection, transaction

from reviews import conf
from workflows.common.line_files import append_lines
from workflows.engine.values.bounded_json import canonical

from . import signing
from .chain import GENESIS
from .records import CHAIN_LOCK

logger = logging.getLogger(__name__)
#: The logger that receives heads.
anchor_logger = logging.getLogger("holdpoint.audit.heads")

#: Interval of heads.
HEADS_SECONDS: Final = 55.0
#: Key of the advisory lock that the database trigger takes for a receipt.
RECEIPTS_LOCK = 0x486F6C65

# A writer keeps the lock until its commit, so no earlier record can still be uncommitted.
_LOCK = "SELECT pg_advisory_xact_lock(%s), pg_advisory_xact_lock(%s)"
_ENDS = """
SELECT clock_timestamp(), record.sequence, record.hash, receipt.sequence, receipt.hash
  FROM (VALUES (1)) AS one
  LEFT JOIN LATERAL (
      SELECT (canonical::json ->> 'sequence')::bigint AS sequence, hash
        FROM reviews_humanreviewrecord ORDER BY id DESC LIMIT 1) AS record ON true
  LEFT JOIN LATERAL (
      SELECT sequence, hash
        FROM workflows_executionreceipt ORDER BY sequence DESC LIMIT 1) AS receipt ON true
"""


def run(stop: threading.Event) -> None:
    """Sign and send heads periodically until stopped, then once more.  Runs in a sweeper thread."""
    while True:
        _ship_one()
        if stop.wait(HEADS_SECONDS):
            break
    _ship_one()


def sign_anchor() -> dict[str, Any]:
    """Return the signed ends of both chains."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [CHAIN_LOCK, RECEIPTS_LOCK])
        cursor.execute(_ENDS)
        moment, sequence, record_hash, receipts_sequence, receipts_hash = cursor.fetchone()
    head = {
        "at": moment.astimezone(UTC).isoformat(timespec="microseconds"),
        "sequence": sequence or 0,
        "hash": record_hash or GENESIS,
        "receipts_sequence": receipts_sequence or 0,
        "receipts_hash": receipts_hash or GENESIS,
    }
    return {**head, "signature": signing.sign("head", canonical(head))}


def ship(head: dict[str, Any]) -> None:
    """Append a head to the file and to the log, as configured."""
    line = json.dumps(head)
    if conf.heads_to_log():
        anchor_logger.info("audit head %s", line)
    path = conf.heads_file()
    if path is None:
        return
    try:
        append_lines(path, line.encode() + b"\n")
    except OSError as error:  # the next head may reach it
        logger.error("a head of the audit log did not reach its file: %s", error)


def _ship_one() -> None:
    if not conf.audit_key():
        return
    try:
        ship(sign_anchor())
    except Error as error:
        logger.warning("no head of the audit log could be read: %s", error)
    finally:
        connection.close()  # a session of PostgreSQL takes memory until the next head
