"""Anchors: signed heads of the audit chains, stored outside the database.

A head holds the ends of both chains at one moment: `{"at", "sequence", "hash", "receipts_sequence",
"receipts_hash", "signature"}`.  The sweeper process signs one at least every minute and when it
stops, and sends it to a file, the log and a webhook, as configured.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from datetime import UTC
from typing import Any

from django.db import Error, connection, transaction

from reviews import conf
from workflows.common import outbound_http
from workflows.common.line_files import append_lines
from workflows.engine.bounded_json import canonical
from workflows.webhooks.addresses import request_permissions

from . import signing
from .chain import GENESIS
from .records import CHAIN_LOCK

logger = logging.getLogger(__name__)
#: The logger that receives heads.
anchor_logger = logging.getLogger("holdpoint.audit.heads")

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
        if stop.wait(conf.heads_seconds()):
            break
    _ship_one()


def sign_anchor() -> dict[str, Any]:
    """Return the signed ends of both chains; "signature" is "" if no key is configured."""
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
    """Send a head to every configured destination; a failure does not affect the others."""
    line = json.dumps(head)
    _try("file", lambda: _to_file(line))
    if conf.heads_to_log():
        anchor_logger.info("audit head %s", line)
    _try("webhook", lambda: _to_webhook(line))


def _ship_one() -> None:
    try:
        ship(sign_anchor())
    except Error as error:
        logger.warning("no head of the audit log could be read: %s", error)
    finally:
        connection.close()  # a session of PostgreSQL takes memory until the next head


def _try(place: str, send: Callable[[], None]) -> None:
    try:
        send()
    except Exception as error:  # the thread must survive any failure
        logger.error("a head of the audit log did not reach its %s: %s", place, error)


def _to_file(line: str) -> None:
    path = conf.heads_file()
    if path is not None:
        append_lines(path, line.encode() + b"\n")


def _to_webhook(line: str) -> None:
    url = conf.heads_url()
    if not url:
        return
    answer = outbound_http.request(
        "POST",
        url,
        grants=request_permissions(url),
        headers={"Content-Type": "application/json"},
        body=line.encode(),
        limits=outbound_http.NetLimits(
            connect_seconds=5.0, total_seconds=10.0, max_response_bytes=65_536, max_redirects=0
        ),
    )
    if not 200 <= answer.status < 300:
        raise outbound_http.NetworkFailed(f"HTTP {answer.status}")
