"""One request for each POST of the API: path, body, and a count that shows its effect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from reviews.decisions.services import DecisionRequest, decide
from reviews.models import Backtest, HumanReviewRecord, LegalHold, RetentionPolicy, ReviewClaim
from tests.integration.workflows.api.conftest import plain_plan, reviewed_plan
from tests.integration.workflows.api.test_access import delivered, granted
from tests.support.actors import actor_named
from tests.support.groups import group_of
from workflows.approvals.services import ask
from workflows.engine.protocol.commands import ApprovalResponse
from workflows.executions import definitions, services
from workflows.executions.jobs import run_to_rest
from workflows.models import (
    ApiToken,
    Approval,
    ApprovalPolicy,
    Capability,
    Execution,
    Grant,
    Hold,
    McpServer,
    RuleVersion,
    WebhookDelivery,
    WebhookEndpoint,
    Workflow,
    WorkflowVersion,
)


@dataclass(frozen=True)
class PostRequest:
    """`effect()` changes each time the request has an effect; `other` is another valid body."""

    path: dict[str, str]
    body: dict[str, Any] | None
    other: dict[str, Any]
    effect: Callable[[], Any]


class World:
    """Things to do something with.  `user` may do all of it, and started none of the runs."""

    def __init__(self) -> None:
        self.user = self._person("everything", "admin", "reviewer")
        self.starter = self._person("starter", "operator")

    def _person(self, name: str, *roles: str) -> User:
        user = User.objects.create_user(name)
        user.groups.set([group_of(role) for role in roles])
        return user

    def run(self, plan: dict[str, Any]) -> Execution:
        return run_to_rest(services.start_execution(actor=self.starter, plan=plan).pk)

    def hold(self, **review: Any) -> Hold:
        plan = reviewed_plan()
        plan["tasks"][0]["human_review"] |= review
        return self.run(plan).holds.get()

    def hook(self) -> dict[str, str]:
        return delivered(self.user, self.run(plain_plan()))


def start(world: World) -> PostRequest:
    body = {"plan": plain_plan()}
    return PostRequest({}, body, {"plan": plain_plan(2)}, Execution.objects.count)


def say(world: World) -> PostRequest:
    run = world.run(reviewed_plan())
    said = run.events.filter(kind="message_added").count
    return PostRequest({"execution_id": str(run.pk)}, {"content": "a"}, {"content": "b"}, said)


def command(world: World) -> PostRequest:
    run = world.run(reviewed_plan())
    body = {"kind": "update_state", "updates": {"a": 1}}
    other = {"kind": "update_state", "updates": {"a": 2}}
    return PostRequest({"execution_id": str(run.pk)}, body, other, run.events.count)


def fork(world: World) -> PostRequest:
    run = world.run(plain_plan(2))
    checkpoint = {"checkpoint": str(run.checkpoints.earliest("layer").pk)}
    other = {**checkpoint, "edits": {"context": {"a": 1}}}
    return PostRequest({"execution_id": str(run.pk)}, checkpoint, other, Execution.objects.count)


def workflow(world: World) -> PostRequest:
    body = {"name": "twice", "title": "Twice", "plan": plain_plan()}
    return PostRequest({}, body, {**body, "title": "Thrice"}, Workflow.objects.count)


def capability(world: World) -> PostRequest:
    code = {"id": "code", "type": "code_execution", "language": "python", "code": "1 + 1"}
    run = world.run({"tasks": [code]})
    assert run.status == "COMPLETED"
    body = {"execution_id": str(run.pk), "task_id": "code", "name": "two"}
    return PostRequest({}, body, {**body, "name": "three"}, Capability.objects.count)


def revoke(world: World) -> PostRequest:
    grant = granted(world.run(plain_plan()))
    taken = Grant.objects.filter(pk=grant.pk).values_list("revoked_at", flat=True).get
    return PostRequest({"grant_id": str(grant.pk)}, None, {"x": 1}, taken)


def token(world: World) -> PostRequest:
    body = {"name": "t", "scopes": ["read"]}
    return PostRequest({}, body, {**body, "name": "u"}, ApiToken.objects.count)


def hook(world: World) -> PostRequest:
    body = {"name": "e", "url": "https://example.com/hook"}
    return PostRequest({}, body, {**body, "name": "f"}, WebhookEndpoint.objects.count)


def rotate(world: World) -> PostRequest:
    path = world.hook()
    secret = WebhookEndpoint.objects.filter(pk=path["webhook_id"]).values_list("secret").get
    return PostRequest({"webhook_id": path["webhook_id"]}, None, {"x": 1}, secret)


def resume_webhook(world: World) -> PostRequest:
    path = world.hook()
    rows = WebhookEndpoint.objects.filter(pk=path["webhook_id"])
    rows.update(parked_at=timezone.now(), parked_reason="of a test")
    parked = rows.values_list("parked_at").get
    return PostRequest({"webhook_id": path["webhook_id"]}, {"skip": True}, {"skip": False}, parked)


def ping(world: World) -> PostRequest:
    path = world.hook()
    return PostRequest(
        {"webhook_id": path["webhook_id"]}, None, {"x": 1}, WebhookDelivery.objects.count
    )


def redeliver(world: World) -> PostRequest:
    path = world.hook()
    rows = WebhookDelivery.objects.filter(pk=path["delivery_id"])
    return PostRequest(path, None, {"x": 1}, rows.values_list("status", "next_at").get)


def resume(world: World) -> PostRequest:
    hold = world.hold()
    body = {
        "execution_id": hold.execution_id,
        "hold_id": hold.id,
        "version": hold.execution.version,
        "decision": "APPROVE",
    }
    return PostRequest({}, body, {**body, "comment": "ok"}, HumanReviewRecord.objects.count)


def _claims() -> list[Any]:
    return list(ReviewClaim.objects.values_list("hold", "user", "expires_at"))


def claim(world: World) -> PostRequest:
    return PostRequest({"hold_id": world.hold().id}, None, {"x": 1}, _claims)


def release(world: World) -> PostRequest:
    hold, later = world.hold(), timezone.now() + timedelta(minutes=5)
    ReviewClaim.objects.create(hold=hold, user=world.user, claimed_at=later, expires_at=later)
    return PostRequest({"hold_id": hold.id}, None, {"x": 1}, _claims)


def withdraw(world: World) -> PostRequest:
    hold = world.hold(quorum=2)
    decide(
        DecisionRequest(
            hold_id=hold.id,
            user=world.user,
            decision="APPROVE",
            version=hold.execution.version,
            source="test",
        )
    )
    return PostRequest(
        {"hold_id": hold.id}, None, {"comment": "sorry"}, HumanReviewRecord.objects.count
    )


def assign(world: World) -> PostRequest:
    hold, name = world.hold(), world.user.get_username()
    return PostRequest({"hold_id": hold.id}, {"to": name}, {"to": "nobody"}, _claims)


def extend(world: World) -> PostRequest:
    hold = world.hold(timeout_seconds=600, on_timeout="reject")
    ends = Hold.objects.filter(pk=hold.id).values_list("expires_at", flat=True).get
    return PostRequest({"hold_id": hold.id}, {"seconds": 60}, {"seconds": 120}, ends)


def bulk(world: World) -> PostRequest:
    chosen = [
        {"hold_id": hold.id, "version": hold.execution.version}
        for hold in (world.hold(), world.hold(), world.hold())
    ]
    body = {"action": "reject", "comment": "no", "holds": chosen}
    return PostRequest({}, body, {**body, "comment": "never"}, HumanReviewRecord.objects.count)


def _workflow(name: str) -> Workflow:
    return Workflow.objects.create(name=name, title=name, plan=plain_plan())


def backtest(world: World) -> PostRequest:
    body = {"workflow": _workflow("w").name, "rules": [{"name": "half", "sample": 0.5}]}
    other = {**body, "rules": [{"name": "most", "sample": 0.9}]}
    return PostRequest({}, body, other, Backtest.objects.count)


def rules(world: World) -> PostRequest:
    path, body = {"workflow_name": _workflow("w").name}, {"rules": [], "version": 0}
    return PostRequest(path, body, {**body, "comment": "none"}, RuleVersion.objects.count)


def restore(world: World) -> PostRequest:
    made = _workflow("w")
    definitions.record_version(made, author=world.user)
    definitions.save_workflow(actor=world.user, workflow=made, fields={"title": "Other"})
    path = {"workflow_name": made.name, "number": "1"}
    return PostRequest(path, None, {"x": 1}, WorkflowVersion.objects.count)


def server(world: World) -> PostRequest:
    body = {"name": "kit", "transport": "http", "url": "https://mcp.example.invalid/mcp"}
    other = {**body, "url": "https://mcp.example.invalid/other"}
    return PostRequest({}, body, other, McpServer.objects.count)


def policy(world: World) -> PostRequest:
    body = {"pattern": "payments.*", "groups": ["reviewer"]}
    return PostRequest({}, body, {**body, "quorum": 2}, ApprovalPolicy.objects.count)


def retention_policy(world: World) -> PostRequest:
    return PostRequest({}, {"keep_days": 90}, {"keep_days": 30}, RetentionPolicy.objects.count)


def legal_hold(world: World) -> PostRequest:
    body = {"workflow": _stored_workflow().name, "reason": "Case 7"}
    return PostRequest({}, body, {**body, "reason": "Case 8"}, LegalHold.objects.count)


def lift(world: World) -> PostRequest:
    hold = LegalHold.objects.create(
        workflow=_stored_workflow(), reason="Case 7", placed_by=world.user
    )
    lifted = LegalHold.objects.filter(lifted_at__isnull=False).count
    path = {"legal_hold_id": str(hold.pk)}
    return PostRequest(path, {"reason": "Closed"}, {"reason": "Settled"}, lifted)


def _stored_workflow() -> Workflow:
    return Workflow.objects.create(name="kept", title="Kept", plan=plain_plan())


def _approval(world: World) -> Approval:
    action = {"name": "payments.transfer", "arguments": {"amount": 1}}
    asked = ask(actor=world.user, fields={"action": action, "phase": "BEFORE_EXECUTION"})
    # Only the token that asked goes on.
    asked.token = ApiToken.objects.filter(user=world.user).last()
    asked.save(update_fields=["token"])
    return asked


def approval(world: World) -> PostRequest:
    body = {"action": {"name": "payments.transfer", "arguments": {"amount": 1}}}
    return PostRequest({}, body, {**body, "quorum": 2}, Approval.objects.count)


def cancel(world: World) -> PostRequest:
    asked = _approval(world)
    aborted = asked.execution.events.filter(kind="execution_aborted").count
    return PostRequest({"approval_id": str(asked.pk)}, {"reason": "a"}, {"reason": "b"}, aborted)


def resubmit(world: World) -> PostRequest:
    asked = _approval(world)
    hold = asked.execution.holds.get()
    services.submit_command(
        execution_id=asked.execution_id,
        command=ApprovalResponse(hold=hold.pk, approved=False, request_changes=True, feedback="!"),
        actor=actor_named("reviewer"),
        source="rest",
    )
    again = asked.execution.events.filter(kind="task_resubmitted").count
    body, other = {"arguments": {"amount": 2}}, {"arguments": {"amount": 3}}
    return PostRequest({"approval_id": str(asked.pk)}, body, other, again)


def result(world: World) -> PostRequest:
    asked = _approval(world)
    hold = asked.execution.holds.get()
    services.submit_command(
        execution_id=asked.execution_id,
        command=ApprovalResponse(hold=hold.pk, approved=True),
        actor=actor_named("reviewer"),
        source="rest",
    )
    run_to_rest(asked.execution_id)
    reported = asked.execution.events.filter(kind="result_reported").count
    return PostRequest({"approval_id": str(asked.pk)}, {"ok": True}, {"ok": False}, reported)


POST_REQUESTS: dict[str, Callable[[World], PostRequest]] = {
    "approvals/": approval,
    "approvals/{approval_id}/cancel/": cancel,
    "approvals/{approval_id}/resubmit/": resubmit,
    "approvals/{approval_id}/result/": result,
    "executions/": start,
    "executions/{execution_id}/messages/": say,
    "executions/{execution_id}/commands/": command,
    "executions/{execution_id}/fork/": fork,
    "workflows/": workflow,
    "capabilities/": capability,
    "mcp-servers/": server,
    "approval-policies/": policy,
    "retention-policies/": retention_policy,
    "legal-holds/": legal_hold,
    "legal-holds/{legal_hold_id}/lift/": lift,
    "grants/{grant_id}/revoke/": revoke,
    "tokens/": token,
    "webhooks/": hook,
    "webhooks/{webhook_id}/rotate/": rotate,
    "webhooks/{webhook_id}/resume/": resume_webhook,
    "webhooks/{webhook_id}/ping/": ping,
    "webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver/": redeliver,
    "reviews/resume/": resume,
    "reviews/holds/{hold_id}/claim/": claim,
    "reviews/holds/{hold_id}/release/": release,
    "reviews/holds/{hold_id}/withdraw/": withdraw,
    "reviews/holds/{hold_id}/assign/": assign,
    "reviews/holds/{hold_id}/extend/": extend,
    "reviews/bulk/": bulk,
    "backtests/": backtest,
    "workflows/{workflow_name}/rules/": rules,
    "workflows/{workflow_name}/versions/{number}/restore/": restore,
}
#: POST routes that know no key, and why none is needed.
WITHOUT_KEY = {
    "hooks/{agent}/stop/": "a hook that stops twice waits no more than before",
    "hooks/{agent}/": "the event's own id makes a repeated call the same approval",
    "notifications/read/": "what is marked as read twice is as read as before",
    "mcp-servers/{server_id}/sync/": "a list that is read twice is the same list",
    "reviews/similar/": "a question in a body: nothing is made and nothing decided",
    "reviews/reveal/": "each showing of a masked value is kept, a repeated one too",
    "tools/search/": "a question in a body: nothing is made and nothing decided",
    "tools/suggest/": "a question in a body: the plan is answered, not kept",
}
