"""The journal's SQL, kept as SQL.  One statement is one durable step."""

from __future__ import annotations

#: Number of workers in a row that were lost; a lease that is still set was never released.
LOST_CLAIMS = "lost_claims + (lease_until IS NOT NULL)::int"

#: Executions whose workers were lost too often are left to the sweeper.  The claim is committed
#: asynchronously: it may be lost in a crash of the database, since the version guards every step.
CLAIM = """
WITH hurried AS (SELECT set_config('synchronous_commit', 'off', true))
UPDATE workflows_execution
   SET lease_owner = %(owner)s,
       lease_until = now() + make_interval(secs => %(lease)s),
       fence = fence + 1,
       lost_claims = LOST,
       wake_at = NULL
  FROM hurried
 WHERE id = %(id)s
   AND (lease_until IS NULL OR lease_until < now())
   AND LOST < %(lost_limit)s
   AND (queued_commands > 0 OR (
        status IN ('PENDING', 'RUNNING') AND (wake_at IS NULL OR wake_at <= now())))
RETURNING version, revision, state, inputs, context, policy, fence, queued_commands,
          abort_requested, extract(epoch FROM clock_timestamp())::float8
""".replace("LOST", LOST_CLAIMS)

#: The full-text vector of TEXT, see `workflows.common.full_text`.
_WORDS = "to_tsvector('simple', translate(TEXT, '._-/:', '     '))"

#: The rows of a new execution for lists, searches and rights: its starter may see it, and shaped
#: it.
LIST_EXECUTION = """
WITH created AS (
    SELECT id, title, created_by_id FROM workflows_execution WHERE id = %(id)s
), audience AS (
    INSERT INTO workflows_audience (execution_id, member)
    SELECT id, 'user:' || created_by_id FROM created WHERE created_by_id IS NOT NULL
), words AS (
    INSERT INTO workflows_executionwords (execution_id, words) SELECT id, WORDS FROM created
), shapers AS (
    INSERT INTO workflows_shaper (execution_id, user_id, way, since)
    SELECT id, created_by_id, 'start', 0 FROM created WHERE created_by_id IS NOT NULL
)
SELECT id FROM created
""".replace("WORDS", _WORDS.replace("TEXT", "title"))

REVISION = """
SELECT plan, layers FROM workflows_planrevision
 WHERE execution_id = %(id)s AND number = %(number)s
"""

READ = """
SELECT version, revision, state, inputs, context, policy, fence, queued_commands,
       coalesce(lease_until >= now(), false), extract(epoch FROM clock_timestamp())::float8
  FROM workflows_execution
 WHERE id = %(id)s
"""

READ_LEASE = """
SELECT fence, queued_commands, abort_requested FROM workflows_execution WHERE id = %(id)s
"""

RENEW_LEASE = """
UPDATE workflows_execution SET lease_until = now() + make_interval(secs => %(lease)s)
 WHERE id = %(id)s AND fence = %(fence)s
RETURNING fence, queued_commands, abort_requested
"""

RELEASE = """
UPDATE workflows_execution
   SET lease_owner = '', lease_until = NULL, dispatched_at = now(),
       lost_claims = lost_claims + %(lost)s,
       wake_at = now() + make_interval(secs => %(delay)s),
       error = CASE WHEN %(error)s = '' THEN error ELSE %(error)s END
 WHERE id = %(id)s AND fence = %(fence)s
"""

QUEUE = """
WITH held AS (
    UPDATE workflows_execution
       SET queued_commands = queued_commands + 1,
           abort_requested = abort_requested OR %(abort)s
     WHERE id = %(id)s AND lease_until >= now()
    RETURNING id, version, status
), logged AS (
    INSERT INTO workflows_commandlog
           (execution_id, kind, actor, actor_id, source, outcome, detail, version)
    SELECT id, %(kind)s, %(actor)s, %(actor_id)s::bigint, %(source)s, 'queued', '', version
      FROM held
), queued AS (
    INSERT INTO workflows_queuedcommand (execution_id, command, actor, actor_id, token_id, source)
    SELECT id, %(command)s::jsonb, %(actor)s, %(actor_id)s::bigint, %(token_id)s::bigint,
           %(source)s
      FROM held
)
SELECT version, status FROM held
"""

#: One durable step.  All parts join the guarded update of the execution: if it finds no row,
#: nothing is written.
COMMIT_STEP = """
WITH moved AS (
    UPDATE workflows_execution
       SET version = %(version)s, status = %(status)s, revision = %(revision)s,
           layer = %(layer)s, total_layers = %(total_layers)s, state = %(state)s::jsonb,
           context = coalesce(%(context)s::jsonb, context),
           lost_claims = 0,
           error = coalesce(%(error)s, error),
           error_code = coalesce(%(error_code)s, error_code),
           error_params = coalesce(%(error_params)s::jsonb, error_params),
           updated_at = statement_timestamp(),
           finished_at = CASE WHEN %(final)s THEN coalesce(finished_at, statement_timestamp()) END,
           queued_commands = queued_commands - %(taken)s,
           abort_requested = abort_requested AND queued_commands > %(taken)s,
           {lease}
     WHERE id = %(id)s AND version = %(expected)s AND {guard}
    RETURNING id, title, queued_commands, abort_requested
){parts}
SELECT queued_commands, abort_requested, extract(epoch FROM clock_timestamp())::float8 FROM moved
"""

#: Each step of a worker renews its lease.
LEASE_KEPT = "lease_until = now() + make_interval(secs => %(lease)s)"
#: A step to rest releases the lease, unless a command was queued meanwhile.
LEASE_BACK = """
           lease_owner = CASE WHEN queued_commands > %(taken)s THEN lease_owner ELSE '' END,
           lease_until = CASE WHEN queued_commands > %(taken)s THEN lease_until END,
           wake_at = to_timestamp(%(wake_at)s::float8)"""
#: A command at rest has no lease; afterwards a job is enqueued for a worker.
LEASE_NONE = "lease_owner = '', lease_until = NULL, wake_at = NULL, dispatched_at = now()"

REST = """
UPDATE workflows_execution
   SET lost_claims = 0, {lease}
 WHERE id = %(id)s AND fence = %(fence)s
RETURNING queued_commands, abort_requested
"""

GUARD_FENCE = "fence = %(fence)s"
GUARD_REST = "(lease_until IS NULL OR lease_until < now())"

EVENTS = """, events AS (
    INSERT INTO workflows_executionevent (execution_id, seq, kind, payload, actor, actor_id,
        source)
    SELECT moved.id, e.seq, e.kind, e.payload, e.actor, e.actor_id, e.source
      FROM moved, jsonb_to_recordset(%(events)s::jsonb)
        AS e(seq bigint, kind text, payload jsonb, actor text, actor_id bigint, source text)
)"""

ATTEMPTS = """, attempts AS (
    INSERT INTO workflows_taskattempt (execution_id, task_id, attempt, layer, revision, status,
        skip_reason, settled, inputs, output, error, error_code, error_params, logs, duration_ms)
    SELECT moved.id, a.task_id, a.attempt, a.layer, a.revision, a.status, a.skip_reason, a.settled,
           a.inputs, a.output, a.error, a.error_code, a.error_params, a.logs, a.duration_ms
      FROM moved, jsonb_to_recordset(%(attempts)s::jsonb)
        AS a(task_id text, attempt int, layer int, revision int, status text, skip_reason text,
             settled boolean, inputs jsonb, output jsonb, error text, error_code text,
             error_params jsonb, logs text, duration_ms float8)
)"""

ATTEMPT_UPDATES = """, attempt_updates AS (
    UPDATE workflows_taskattempt AS old
       SET status = coalesce(a.status, old.status),
           skip_reason = coalesce(a.skip_reason, old.skip_reason),
           settled = coalesce(a.settled, old.settled),
           is_edited = old.is_edited OR a.is_edited,
           edited_output = CASE WHEN a.is_edited THEN a.edited_output ELSE old.edited_output END
      FROM moved, jsonb_to_recordset(%(attempt_updates)s::jsonb)
        AS a(task_id text, status text, skip_reason text, settled boolean, is_edited boolean,
             edited_output jsonb)
     WHERE old.execution_id = moved.id AND old.task_id = a.task_id AND old.settled
)"""

#: Holds of one statement open a microsecond apart, in the order of their events: lists by time then
#: have the order of the tasks, and not that of the ids as text ("5-10" before "5-2").
HOLDS = """, holds AS (
    INSERT INTO workflows_hold (id, execution_id, task_id, task_title, reason, decider, phase,
        status, layer, payload, groups, target, why, why_code, why_params, instructions, critical,
        stated_risk, quorum, approvals, on_reject, on_timeout, opened_seq, round, previous_id,
        changes_left,
        expires_at, decided_by, decision, reminders, reminded, reminds_at, escalation, escalated,
        escalates_at, opened_at)
    SELECT h.id, moved.id, h.task_id, coalesce(h.task_title, ''), h.reason, h.decider, h.phase,
           'OPEN', h.layer, h.payload,
           ARRAY(SELECT jsonb_array_elements_text(h.groups)), h.target, h.why,
           coalesce(h.why_code, ''), coalesce(h.why_params, '{}'), h.instructions, h.critical,
           coalesce(h.stated_risk, ''), h.quorum, '{}', h.on_reject, h.on_timeout, h.opened_seq,
           coalesce(h.round, 1), h.previous_id, coalesce(h.changes_left, 0),
           now() + make_interval(secs => h.timeout_seconds), '', '',
           coalesce(h.reminders, '[]'), 0,
           now() + make_interval(secs => (h.reminders->>0)::float8),
           coalesce(h.escalation, '[]'), 0,
           now() + make_interval(secs => (h.escalation->0->>'after_seconds')::float8),
           now() + (h.opened_seq - min(h.opened_seq) OVER ()) * interval '1 microsecond'
      FROM moved, jsonb_to_recordset(%(holds)s::jsonb)
        AS h(id text, task_id text, task_title text, reason text, decider text, phase text,
             layer int,
             payload jsonb, groups jsonb, target text, why text, why_code text, why_params jsonb,
             instructions text, critical boolean, stated_risk text, quorum int,
             on_reject text, on_timeout text, opened_seq bigint, timeout_seconds float8,
             reminders jsonb, escalation jsonb, round int, previous_id text, changes_left int)
    RETURNING id, decider, status, groups, task_id, target, why
)"""

_LATER = """(make_interval(secs => coalesce(v.extend, 0))
               + CASE WHEN v.reopens THEN now() - hold.decided_at ELSE '0' END)"""

#: An extension moves the deadline and all later reminders and steps; a step only adds groups.  If a
#: decision is withdrawn, the hold's deadlines move by the time for which it was decided.
HOLD_UPDATES = """, hold_updates AS (
    UPDATE workflows_hold AS hold
       SET status = CASE WHEN v.reopens THEN 'OPEN' ELSE coalesce(v.status, hold.status) END,
           approvals = CASE WHEN v.voter IS NOT NULL THEN array_append(hold.approvals, v.voter)
                            WHEN v.unvote IS NOT NULL THEN ARRAY(
                                SELECT name
                                  FROM unnest(hold.approvals, hold.approver_ids) WITH ORDINALITY
                                    AS vote(name, user_id, place)
                                 WHERE user_id IS DISTINCT FROM v.unvote ORDER BY place)
                            ELSE hold.approvals END,
           approver_ids = CASE
               WHEN v.voter IS NOT NULL THEN array_append(hold.approver_ids, v.voter_id)
               WHEN v.unvote IS NOT NULL THEN array_remove(hold.approver_ids, v.unvote)
               ELSE hold.approver_ids END,
           expires_at = hold.expires_at + LATER,
           reminds_at = hold.reminds_at + LATER,
           groups = CASE WHEN v.groups IS NULL THEN hold.groups ELSE hold.groups || ARRAY(
               SELECT g FROM jsonb_array_elements_text(v.groups) AS g
                WHERE g <> ALL(hold.groups)) END,
           escalated = coalesce(v.step + 1, hold.escalated),
           escalates_at = hold.escalates_at + CASE WHEN v.step IS NULL THEN LATER
               ELSE make_interval(secs =>
                   (hold.escalation->(v.step + 1)->>'after_seconds')::float8
                   - (hold.escalation->v.step->>'after_seconds')::float8) END,
           decided_at = CASE WHEN v.reopens THEN NULL
                             WHEN v.status IS NULL THEN hold.decided_at ELSE now() END,
           decided_by = CASE WHEN v.reopens THEN ''
                             ELSE coalesce(v.decided_by, hold.decided_by) END,
           decided_by_id = CASE WHEN v.reopens THEN NULL
                                WHEN v.decided_by IS NOT NULL THEN v.decided_by_id
                                ELSE hold.decided_by_id END,
           decision = CASE WHEN v.reopens THEN '' ELSE coalesce(v.decision, hold.decision) END,
           undo_until = CASE WHEN v.undo IS NOT NULL THEN now() + make_interval(secs => v.undo)
                             WHEN v.reopens OR v.settles THEN NULL ELSE hold.undo_until END
      FROM moved, jsonb_to_recordset(%(hold_updates)s::jsonb)
        AS v(id text, status text, voter text, voter_id bigint, extend float8, decided_by text,
             decided_by_id bigint, decision text, step int, groups jsonb, undo float8,
             unvote bigint, reopens boolean, settles boolean)
     WHERE hold.id = v.id AND hold.execution_id = moved.id
    RETURNING hold.id, hold.decider, hold.status, hold.groups, hold.task_id, hold.target, hold.why
)""".replace("LATER", _LATER)

#: Lists of the holds that this step opens or updates: members of their groups may see the run,
#: also after the decision, and the queue shows each open hold once per group, or once without a
#: group.  HOLDS stands for the parts of the statement that return the holds.
LISTS = """, listed AS (HOLDS), audience AS (
    INSERT INTO workflows_audience (execution_id, member)
    SELECT moved.id, 'group:' || name FROM moved, listed, unnest(listed.groups) AS name
    ON CONFLICT DO NOTHING
), unlisted AS (
    DELETE FROM workflows_waiting AS waiting USING listed
     WHERE waiting.hold_id = listed.id
       AND (listed.status <> 'OPEN' OR (waiting."group" = '' AND listed.groups <> '{}'))
), waiting AS (
    INSERT INTO workflows_waiting (hold_id, execution_id, "group", words)
    SELECT listed.id, moved.id, name, WORDS
      FROM moved, listed, unnest(
          CASE WHEN cardinality(listed.groups) = 0 THEN '{""}' ELSE listed.groups END) AS name
     WHERE listed.status = 'OPEN' AND listed.decider = 'human'
    ON CONFLICT DO NOTHING
)""".replace(
    "WORDS",
    _WORDS.replace(
        "TEXT", "concat_ws(' ', moved.title, listed.task_id, listed.target, listed.why)"
    ),
)

#: People who shaped the run in this step, see `shapers`.
SHAPERS = """, shapers AS (
    INSERT INTO workflows_shaper (execution_id, user_id, way, since)
    SELECT moved.id, s.user_id, s.way, s.since
      FROM moved, jsonb_to_recordset(%(shapers)s::jsonb)
        AS s(user_id bigint, way text, since bigint)
    ON CONFLICT DO NOTHING
)"""

#: Closes the open holds of a run that ends, including decisions in their undo period.  Holds that
#: this step decides are left out, because one statement may update a row only once.
CLOSE_HOLDS = """, closing AS (
    UPDATE workflows_hold AS hold
       SET status = 'CLOSED', decided_at = now(), undo_until = NULL
      FROM moved
     WHERE hold.execution_id = moved.id
       AND (hold.status = 'OPEN' OR hold.undo_until IS NOT NULL)
       AND NOT (hold.id = ANY(%(decided_ids)s::text[]))
), no_longer_waiting AS (
    DELETE FROM workflows_waiting AS waiting USING moved WHERE waiting.execution_id = moved.id
)"""

CHECKPOINTS = """, checkpoints AS (
    INSERT INTO workflows_checkpoint (execution_id, layer, version, revision, context, state)
    SELECT moved.id, c.layer, c.version, c.revision, c.context, c.state::jsonb
      FROM moved, jsonb_to_recordset(%(checkpoints)s::jsonb)
        AS c(layer int, version bigint, revision int, context jsonb, state text)
), pruned AS (
    DELETE FROM workflows_checkpoint AS old USING moved
     WHERE old.execution_id = moved.id AND old.layer <= %(prune_to)s
)"""

REVISIONS = """, revisions AS (
    INSERT INTO workflows_planrevision (execution_id, number, plan, layers, cause)
    SELECT moved.id, r.number, r.plan, r.layers, r.cause
      FROM moved, jsonb_to_recordset(%(revisions)s::jsonb)
        AS r(number int, plan jsonb, layers jsonb, cause text)
)"""

#: Receipts of tasks that ran after an approval.  A trigger chains the rows by hash, and drops rows
#: whose hold has no review record.
RECEIPTS = """, receipts AS (
    INSERT INTO workflows_executionreceipt (execution_id, hold_id, task_id, attempt, phase, digest)
    SELECT moved.id, approved.id, r.task_id, r.attempt, r.phase, r.digest
      FROM moved, jsonb_to_recordset(%(receipts)s::jsonb)
        AS r(task_id text, attempt int, phase text, digest text),
      LATERAL (
          SELECT hold.id FROM workflows_hold AS hold
           WHERE hold.execution_id = moved.id AND hold.task_id = r.task_id
             AND hold.phase = r.phase AND hold.reason = 'node_review'
             AND hold.decider = 'human' AND hold.status = 'APPROVED'
           ORDER BY hold.opened_seq DESC LIMIT 1) AS approved
)"""

TAKE_COMMANDS = """, taken AS (
    UPDATE workflows_queuedcommand AS q SET taken_at = now()
      FROM moved WHERE q.execution_id = moved.id AND q.id = ANY(%(taken_ids)s::bigint[])
)"""

#: Logs a command in the step that applies it.
LOG_COMMAND = """, logged AS (
    INSERT INTO workflows_commandlog
           (execution_id, kind, actor, actor_id, source, outcome, detail, version)
    SELECT moved.id, %(log_kind)s, %(log_actor)s, %(log_actor_id)s::bigint, %(log_source)s,
           'applied', '', %(version)s
      FROM moved
)"""

COPY_ATTEMPTS = """
INSERT INTO workflows_taskattempt (execution_id, task_id, attempt, layer, revision, status,
    skip_reason, settled, inputs, output, edited_output, is_edited, error, error_code,
    error_params, logs, duration_ms, created_at)
SELECT %(child)s, task_id, attempt, layer, 1, status, skip_reason, settled, inputs, output,
       edited_output, is_edited, error, error_code, error_params, logs, duration_ms, created_at
  FROM workflows_taskattempt
 WHERE execution_id = %(parent)s AND layer <= %(layer)s
"""

SETTLED = """
SELECT task_id, status, skip_reason,
       CASE WHEN status <> 'SUCCEEDED' THEN NULL -- no task may read a rejected output
            WHEN is_edited THEN edited_output ELSE output END,
       CASE WHEN layer = %(layer)s THEN inputs END -- only AFTER reviews of this layer need them
  FROM workflows_taskattempt
 WHERE execution_id = %(id)s AND settled AND task_id = ANY(%(tasks)s::text[])
"""
