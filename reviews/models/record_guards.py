"""Guards of review records: what the database checks of a new record, and what may change."""

from __future__ import annotations

from typing import Any

import pgtrigger

from workflows.common.guards import RUN_IS_ERASED, AppendOnly, Guard


class EmptiedByRetention(AppendOnly):
    """Append-only, but payloads that are stored in the open are emptied with their run."""

    unless = f"""TG_OP = 'UPDATE' AND NEW.original_data IS NULL AND NEW.modified_data IS NULL
        AND to_jsonb(NEW) - '{{original_data,modified_data}}'::text[]
            = to_jsonb(OLD) - '{{original_data,modified_data}}'::text[]
        AND {RUN_IS_ERASED}"""


class ContinuesChain(Guard):
    """A new record continues the chain, is signed with what it shows, now, and has its event."""

    name = "continues_chain"
    operation = pgtrigger.Insert
    declare = [
        ("last", "record"),
        ("signed", "jsonb := NEW.canonical::jsonb"),
        ("moment", "timestamptz"),
    ]

    def get_func(self, model: Any) -> str:
        return CONTINUES_CHAIN


CONTINUES_CHAIN = r"""
PERFORM pg_advisory_xact_lock(1215261796);
SELECT id, hash, (canonical::jsonb->>'sequence')::bigint AS sequence INTO last
  FROM reviews_humanreviewrecord ORDER BY id DESC LIMIT 1;
IF NEW.previous_hash <> coalesce(last.hash, repeat('0', 64))
   OR (signed->>'sequence')::bigint IS DISTINCT FROM coalesce(last.sequence, 0) + 1
   OR NEW.id <= coalesce(last.id, 0)
THEN
    RAISE EXCEPTION 'a review record has to continue the chain'
        USING ERRCODE = 'check_violation';
END IF;
IF NEW.hash <> encode(
    sha256(convert_to(NEW.previous_hash || E'\n' || NEW.canonical, 'UTF8')), 'hex')
THEN
    RAISE EXCEPTION 'a review record has to have the hash of its text'
        USING ERRCODE = 'check_violation';
END IF;
IF (signed->>'actor', signed->>'decision', signed->>'hold', signed->>'source',
    signed->>'execution', signed->>'reviewer', signed->>'version',
    signed->>'shown_digest', signed->>'decided_digest', signed->>'on_behalf_of_id',
    (signed->>'reviewed_at')::timestamptz)
   IS DISTINCT FROM
   (NEW.actor, NEW.decision, NEW.hold_id, NEW.source,
    NEW.execution_id::text, NEW.reviewer_id::text, NEW.version::text,
    NEW.shown_digest, NEW.decided_digest, NEW.on_behalf_of_id::text, NEW.reviewed_at)
THEN
    RAISE EXCEPTION 'a review record has to show what it was signed with'
        USING ERRCODE = 'check_violation';
END IF;
moment := clock_timestamp();
IF NEW.reviewed_at > moment OR NEW.reviewed_at < moment - interval '1 minute' THEN
    RAISE EXCEPTION 'a review record has to have the time of now'
        USING ERRCODE = 'check_violation';
END IF;
IF NOT EXISTS (
    SELECT FROM workflows_executionevent
     WHERE execution_id = NEW.execution_id AND seq = NEW.version
       AND actor = NEW.actor AND actor_id IS NOT DISTINCT FROM NEW.reviewer_id
       AND source = NEW.source)
THEN
    RAISE EXCEPTION 'a review record needs the event of its decision in the journal'
        USING ERRCODE = 'check_violation';
END IF;
RETURN NEW;
"""
