"""Ask for an approval, cancel it, submit it again, and report its result.

Each function is one transaction.  The execution of an approval calls no tool, so it is advanced in
the same transaction until it rests: nobody sees an approval without its hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from workflows.calendars.services import with_business_hours
from workflows.common.crashpoints import crashpoint
from workflows.common.redaction import mask_secrets
from workflows.common.schemas import schema_errors, schema_problem
from workflows.engine.plans.dag import SOURCES, ExternalActionTask, Plan
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.commands import Abort, ReportResult, ResubmitAction
from workflows.engine.protocol.loop import step
from workflows.engine.protocol.ports import LeaseLost, StaleVersion
from workflows.engine.values.bounded_json import digest
from workflows.executions import access
from workflows.executions.idempotency import KeyReused
from workflows.executions.services import ports, submit_command
from workflows.executions.validation import InvalidRequest, check_groups
from workflows.journal import writer as journal_writer
from workflows.models import Approval, GateCall, WebhookEndpoint
from workflows.webhooks.addresses import url_problem
from workflows.webhooks.services import standing

from .editable import locked_changes, pointer_path
from .policies import ActionPolicy, execution_policy, samples
from .selectors import action_of, submitted_values
from .standing_answers import use_standing_answer

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Events that end the execution of an approval.
_ENDS = frozenset({"workflow_complete", "workflow_aborted"})
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_.\-]")


# --- asking ---------------------------------------------------------------------------------------


def ask(
    *,
    actor: User,
    fields: Mapping[str, Any],
    key: str = "",
    body: Any = None,
    incomplete: bool = False,
    deadline_seconds: float | None = None,
) -> Approval:
    """Ask for the approval of an action, and return it with its hold open or its review skipped.

    Args:
        actor: the user whose token or session asks; four eyes forbids them to decide.
        fields: the validated body of the request, see `api.AskSerializer`.
        key: the Idempotency-Key; the same key of the same credential returns the same approval.
        body: the body as it was sent, which has to be equal for the same key.
        incomplete: people fill in the arguments, which have to match the schema only then.
        deadline_seconds: when the approval is rejected if its review has no deadline.

    Raises:
        InvalidRequest: names the invalid fields, and those that loosen the policy of the action.
        KeyReused: the key was used with another body.
        PermissionDenied: the actor's token is limited to workflows.
    """
    if access.allowed_workflow_ids(actor) is not None:
        raise PermissionDenied("This token is limited to workflows, and an approval has none.")
    body_digest = digest(body) if key else ""
    try:
        with transaction.atomic():
            known = _known(actor, key, body_digest)
            return known or _create(
                actor,
                fields,
                key,
                body_digest,
                incomplete=incomplete,
                deadline_seconds=deadline_seconds,
            )
    except IntegrityError:
        # An equal request at the same moment was first.
        known = _known(actor, key, body_digest)
        if known is None:
            raise
        return known


def _key_digest(actor: User, key: str) -> str:
    credential = access.credential_of(actor)
    return digest([credential.token_id if credential else None, key]) if key else ""


def _known(actor: User, key: str, body_digest: str) -> Approval | None:
    if not key:
        return None
    rows = Approval.objects.filter(owner=actor.pk, key_digest=_key_digest(actor, key))
    known = rows.first()
    if known is not None and known.body_digest != body_digest:
        raise KeyReused
    return known


def _create(
    actor: User,
    fields: Mapping[str, Any],
    key: str,
    body_digest: str,
    *,
    incomplete: bool,
    deadline_seconds: float | None,
) -> Approval:
    action, asked_by = fields["action"], fields.get("requested_by", {})
    callback = fields.get("callback", {}).get("url", "")
    policy = ActionPolicy.of(action["name"])
    review = policy.review(fields, fields["phase"])
    if review.seconds_to_deadline is None and deadline_seconds is not None:
        deadline = {"timeout_seconds": deadline_seconds, "on_timeout": "reject"}
        review = review.model_copy(update=deadline)
    risk = policy.risk(action["name"], fields.get("risk", ""))
    agent = mask_secrets(asked_by.get("agent", ""))[:200]
    _check_values(action, fields["phase"], incomplete=incomplete)
    _check_urls(actor, asked_by.get("url", ""), callback)
    task = ExternalActionTask(
        id=_task_id(action["name"]),
        type="external_action",
        title=action.get("title", ""),
        action=action["name"],
        arguments=action["arguments"],
        output=action.get("output"),
        description=action.get("description", ""),
        argument_schema=action.get("schema", {}),
        risk=risk,
        editable=fields.get("editable", True),
        human_review=review,
        sample_seed=_sample_seed(actor, action) if samples(review, policy.rules) else None,
    )
    _check_groups(Plan(tasks=(task,)))
    # What people have to fill in is never answered beforehand.
    standing = (
        None
        if incomplete
        else use_standing_answer(actor=actor, row=policy.row, task=task, agent=agent)
    )
    plan = Plan(tasks=(task.model_copy(update={"standing": standing}),))
    credential = access.credential_of(actor)
    execution = journal_writer.create(
        workflow=None,
        plan=plan,
        policy=with_business_hours(execution_policy(task, policy)),
        policy_overrides=(),
        inputs={},
        title=task.title or mask_secrets(task.action),
        created_by=actor,
    )
    approval = Approval.objects.create(
        execution=execution,
        owner=actor,
        token_id=credential.token_id if credential else None,
        key_digest=_key_digest(actor, key),
        body_digest=body_digest,
        action=task.action,
        title=task.title,
        phase=fields["phase"],
        risk=risk,
        policy=policy.pattern,
        agent=agent,
        session=mask_secrets(asked_by.get("session", ""))[:200],
        url=_stored_url(asked_by.get("url", ""), is_question=incomplete),
        context=mask_secrets(fields.get("context", "")),
        callback_url=callback,
        is_question=incomplete,
        arguments_digest=digest(task.arguments),
    )
    crashpoint("approval.created")
    _advance(execution.pk)
    return approval


def _stored_url(url: str, *, is_question: bool) -> str:
    """Return the address without secrets; people have to open that of a question as it is."""
    return url if is_question else mask_secrets(url)[:2000]


def _sample_seed(actor: User, action: Mapping[str, Any]) -> str:
    """Return a constant of the person, the action and its arguments that nobody else can compute.

    An agent that asks again for the same action would otherwise get another draw of the sample.
    """
    value = digest([actor.pk, action["name"], action["arguments"]])
    return salted_hmac("holdpoint.approvals.sample", value, algorithm="sha256").hexdigest()


def _task_id(name: str) -> str:
    """Return a task id that people recognize as the action's name."""
    text = _NOT_IN_IDS.sub("_", name)[:60]
    return f"_{text}" if text in SOURCES or not (text[0].isalpha() or text[0] == "_") else text


def _check_values(action: Mapping[str, Any], phase: str, *, incomplete: bool) -> None:
    """Raise InvalidRequest unless the schema is usable and the arguments match it."""
    schema = action.get("schema", {})
    problem = schema_problem(schema)
    if problem:
        raise InvalidRequest((Problem("action.schema", "invalid_schema", problem),))
    if not incomplete:
        _check_arguments(schema, action["arguments"], "action.arguments")
    if phase == TriggerPhase.AFTER_EXECUTION and "output" not in action:
        message = "give the output that people review"
        raise InvalidRequest((Problem("action.output", "required", message),))
    if phase == TriggerPhase.BEFORE_EXECUTION and "output" in action:
        message = "an action that has not run has no output"
        raise InvalidRequest((Problem("action.output", "not_executed", message),))


def _check_arguments(schema: Any, arguments: Mapping[str, Any], path: str) -> None:
    errors = schema_errors(schema, dict(arguments)) if schema else []
    if errors:
        raise InvalidRequest(
            tuple(
                Problem(_join(path, each.path), "schema_mismatch", each.message) for each in errors
            )
        )


def _join(prefix: str, path: str) -> str:
    if not path:
        return prefix
    return f"{prefix}{path}" if path.startswith("[") else f"{prefix}.{path}"


def _check_urls(actor: User, url: str, callback: str) -> None:
    problems = []
    if url and not is_web_address(url):
        message = "must be an address that begins with https:// or http://"
        problems.append(Problem("requested_by.url", "address", message))
    problem = (url_problem(callback) or _endpoint_problem(actor, callback)) if callback else ""
    if problem:
        problems.append(Problem("callback.url", "address", problem))
    if problems:
        raise InvalidRequest(tuple(problems))


def _endpoint_problem(actor: User, url: str) -> str:
    """Return why no webhook endpoint of the actor sends the answer to `url`; "" if one does.

    A callback is an endpoint that exists: its secret signs, and its owner has checked its address.
    """
    rows = WebhookEndpoint.objects.filter(owner=actor.pk, url=url)
    endpoints = list(rows.select_related("owner", "token__user"))
    if not endpoints:
        return "none of your webhook endpoints has this address; create one first"
    reasons = [_silence(each) for each in endpoints]
    return "" if "" in reasons else reasons[0]


def _silence(endpoint: WebhookEndpoint) -> str:
    """Return why the endpoint does not send how an approval ended; "" if it does."""
    reason = standing(endpoint)
    if reason is not None:
        return f"nothing is sent to this endpoint: {reason.text}"
    if endpoint.token is not None and endpoint.token.only_workflows is not None:
        return "this endpoint is limited to workflows, and an approval has none"
    missing = _ENDS.difference(endpoint.events) if endpoint.events else ()
    if missing:
        return f"this endpoint does not subscribe to {', '.join(sorted(missing))}"
    return ""


def is_web_address(url: str) -> bool:
    """Whether a page may link the address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    has_user = parts.username is not None or parts.password is not None
    is_plain = url.isprintable() and not any(each.isspace() for each in url)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain and not has_user


def _check_groups(plan: Plan) -> None:
    """Check the groups; a problem names the field of the request."""
    try:
        check_groups(plan=plan)
    except InvalidRequest as invalid:
        prefix = "plan.tasks[0].human_review."
        raise InvalidRequest(
            tuple(
                Problem(each.path.removeprefix(prefix), each.code, each.message)
                for each in invalid.problems
            )
        ) from invalid


def _advance(execution_id: int) -> None:
    """Advance the execution until it rests; a worker that is faster does the same."""
    try:
        while step(str(execution_id), ports()):
            pass
    except (LeaseLost, StaleVersion):
        return


# --- what the caller does afterwards --------------------------------------------------------------


def _check_gate(approval: Approval, *, by_gate: bool) -> None:
    """Raise PermissionDenied for an approval of a call through an MCP gate, unless the gate asks.

    Another token of the same person would otherwise forge the result of the call.
    """
    if by_gate:
        return
    if approval.is_question or GateCall.objects.filter(approval=approval.pk).exists():
        raise PermissionDenied(
            "This approval belongs to a call through an MCP gate. Only the gate continues it."
        )


def cancel(
    *, approval: Approval, actor: User, reason: str, source: str = "rest", by_gate: bool = False
) -> None:
    """End an approval that is not decided.

    `by_gate` is true only for the gate that holds the call.

    Raises:
        Refused: it has ended.
        PermissionDenied: it belongs to a call through a gate.
    """
    _check_gate(approval, by_gate=by_gate)
    submit_command(
        execution_id=approval.execution_id,
        command=Abort(reason=reason),
        actor=access.actor_of(actor),
        source=source,
    )


def resubmit(
    *,
    approval: Approval,
    actor: User,
    fields: Mapping[str, Any],
    source: str = "rest",
    by_gate: bool = False,
) -> None:
    """Submit the action again after changes were requested, which opens the next round.

    `by_gate` is true only for the gate that holds the call.

    Raises:
        InvalidRequest: the values do not match the schema, or differ where `editable` forbids it.
        Refused: no changes are requested.
        PermissionDenied: it belongs to a call through a gate.
    """
    _check_gate(approval, by_gate=by_gate)
    task = action_of(approval.execution)
    name = "output" if task.is_executed else "arguments"
    other = "arguments" if task.is_executed else "output"
    if name not in fields or other in fields:
        message = f"give {name}, and no {other}: people review the {name} of this action"
        where = name if name not in fields else other
        raise InvalidRequest((Problem(where, "required", message),))
    if not task.is_executed:
        _check_arguments(task.argument_schema, fields["arguments"], "arguments")
    before = submitted_values(approval.execution)[name]
    locked = locked_changes(task.editable, before, fields[name])
    if locked:
        message = "editable does not allow a change here"
        raise InvalidRequest(
            tuple(Problem(_join(name, pointer_path(each)), "locked", message) for each in locked)
        )
    with transaction.atomic():
        submit_command(
            execution_id=approval.execution_id,
            command=ResubmitAction(**{name: fields[name]}),
            actor=access.actor_of(actor),
            source=source,
        )
        _advance(approval.execution_id)


def report(
    *,
    approval: Approval,
    actor: User,
    fields: Mapping[str, Any],
    source: str = "rest",
    by_gate: bool = False,
) -> None:
    """Report what the caller executed, once.

    `arguments` or `arguments_digest` are the executed arguments.  `by_gate` is true only for the
    gate that called the tool.

    Raises:
        InvalidRequest: both are given.
        Refused: the action is not approved, or its result was reported before.
        PermissionDenied: it belongs to a call through a gate.
    """
    _check_gate(approval, by_gate=by_gate)
    if "arguments" in fields and "arguments_digest" in fields:
        message = "give arguments or arguments_digest, not both"
        raise InvalidRequest((Problem("arguments_digest", "twice", message),))
    executed = fields.get("arguments_digest", "")
    if "arguments" in fields:
        executed = digest(fields["arguments"])
    with transaction.atomic():
        submit_command(
            execution_id=approval.execution_id,
            command=ReportResult(
                ok=fields["ok"], error=fields.get("error", ""), executed_digest=executed
            ),
            actor=access.actor_of(actor),
            source=source,
        )
        reported = approval.execution.events.filter(kind="result_reported").latest("seq")
        Approval.objects.filter(pk=approval.pk).update(
            result_ok=fields["ok"],
            result_output=fields.get("output"),
            result_arguments=fields.get("arguments"),
            result_error=mask_secrets(fields.get("error", "")),
            result_mismatch=reported.payload["mismatch"],
            result_at=Now(),
        )
