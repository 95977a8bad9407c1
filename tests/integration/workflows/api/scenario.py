"""One scenario that uses every operation of the API, by programs of three users.

Each part starts what it needs, so that a new operation is a few lines in the part it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.utils import timezone
from rest_framework.test import APIClient

from reviews.backtests import jobs as backtests_jobs
from tests.integration.workflows.api.recorder import Recorder
from tests.support.learning import learn
from tests.support.webhook_receiver import Receiver
from workflows.executions.jobs import run_to_rest
from workflows.models import Execution, WebhookEndpoint

ECHO = {"type": "tool", "tool": "builtin.echo"}
#: What a person reads before it is sent; the password is shown as a mark.
LETTER = {"to": "Ada", "text": "Your order is on its way.", "password": "example-password"}


def task(name: str, value: Any, **review: Any) -> dict[str, Any]:
    """A task that gives its value; reviewed if the review is given."""
    made = {"id": name, **ECHO, "arguments": {"value": value}}
    asked = {"groups": ["reviewer"], "on_timeout": "keep_waiting", **review}
    return {**made, "human_review": asked} if review else made


AFTER = {"trigger_phase": "AFTER_EXECUTION", "instructions": "Is it right?"}
BEFORE = {"trigger_phase": "BEFORE_EXECUTION", "instructions": "May it be sent?"}


@contextmanager
def busy(number: str) -> Iterator[None]:
    """A worker has the execution, so that what comes meanwhile is queued."""
    mine = Execution.objects.filter(pk=number)
    mine.update(lease_owner="worker", lease_until=timezone.now() + timedelta(minutes=1))
    yield
    mine.update(lease_owner="", lease_until=None)
    run_to_rest(int(number))


class Story:
    """`told` has what every operation was asked and answered, once all parts were told."""

    def __init__(
        self,
        *,
        clients: dict[str, APIClient],
        receiver: Receiver,
        send: Callable[[], None],
        notice: Callable[[], None],
    ) -> None:
        """`clients`: operator, reviewer and admin.  `send` sends what waits for the receiver;
        `notice` tells people what there is to be told."""
        self.told = Recorder()
        self.operator, self.reviewer = clients["operator"], clients["reviewer"]
        self.admin = clients["admin"]
        self.receiver, self.send, self.notice = receiver, send, notice

    def tell(self) -> Recorder:
        for part in (
            self.a_decision, self.in_the_queue, self.one_execution, self.its_layers, self.at_once,
            self.two_approvals, self.a_secret, self.notices, self.workflows, self.rules,
            self.code, self.approvals, self.approval_policies, self.grants, self.servers,
            self.retention, self.tokens, self.tools, self.webhooks, self.deliveries,
        ):  # fmt: skip
            part()
        return self.told

    # ------------------------------------------------------------ executions

    def started(self, *tasks: dict[str, Any], title: str = "", **more: Any) -> str:
        """An execution's id, run until it rests."""
        body = {"title": title or "Say it twice", "plan": {"tasks": list(tasks)}, **more}
        made = self.told.tell(self.operator, "executions_start", body)
        run_to_rest(int(made["id"]))
        return str(made["id"])

    def hold(self, number: str) -> dict[str, Any]:
        """Its open hold, as a reviewer reads it."""
        client = self.reviewer
        found = self.told.tell(client, "reviews_pending_context", execution_id=number)
        return dict(found["holds"][0])

    def decided(self, number: str, **answer: Any) -> dict[str, Any]:
        hold = self.hold(number)
        body = {
            "execution_id": number,
            "hold_id": hold["hold_id"],
            "version": hold["version"],
            "decision": "APPROVE",
            **answer,
        }
        return dict(self.told.tell(self.reviewer, "reviews_resume", body))

    def a_decision(self) -> None:
        """The first of all, so that its record is the first of the chain."""
        text = {"to": "Ada", "text": "Your order is on it's way."}
        letter = task("letter", text, **AFTER)
        number = self.started(letter, task("send", {"$from": "letter"}), title="A letter")
        edits = {**text, "text": "Your order is on its way."}
        self.decided(number, edits=edits, comment="A typo.")
        record = self.told.tell(self.reviewer, "reviews_history")["results"][0]
        call = {"tool": record["target"], "arguments": {"value": "text"}, "limit": 1}
        self.told.tell(self.reviewer, "reviews_similar", call)
        self.told.tell(self.reviewer, "reviews_record", id=record["id"])
        self.told.tell(self.reviewer, "executions_decisions", execution_id=number)

    def one_execution(self) -> None:
        draft = task("draft", {"text": "hello"}, **AFTER)
        number, tell = self.started(draft, task("use", {"$from": "draft"})), self.told.tell
        say = {"content": "Please keep the tone friendly."}
        command = {"kind": "update_state", "updates": {"tone": "friendly"}}
        tell(self.operator, "executions_say", say, execution_id=number)
        tell(self.operator, "executions_command", command, execution_id=number)
        with busy(number):
            tell(self.operator, "executions_say", say, execution_id=number)
            tell(self.operator, "executions_command", command, execution_id=number)
        for name in (
            "executions_get",
            "executions_events",
            "executions_messages",
            "executions_decisions",
        ):
            tell(self.operator, name, execution_id=number)
        tell(self.operator, "executions_list", query="page_size=1")

    def its_layers(self) -> None:
        number = self.started(task("first", 1), {**task("second", 2), "depends_on": ["first"]})
        found = self.told.tell(
            self.operator, "executions_checkpoints", execution_id=number, query="page_size=1"
        )
        body = {"checkpoint": found["results"][0]["id"]}
        self.told.tell(self.operator, "executions_fork", body, execution_id=number)

    # ------------------------------------------------------------ reviews

    def in_the_queue(self) -> None:
        timed = {**AFTER, "timeout_seconds": 600, "on_timeout": "reject"}
        number, tell = self.started(task("draft", {"text": "hello"}, **timed)), self.told.tell
        hold = self.hold(number)["hold_id"]
        tell(self.reviewer, "reviews_pending")
        tell(self.reviewer, "reviews_claim", hold_id=hold)
        tell(self.reviewer, "reviews_release", hold_id=hold)
        tell(self.reviewer, "reviews_assign", {"to": "reviewer"}, hold_id=hold)
        tell(self.reviewer, "reviews_extend", {"seconds": 600}, hold_id=hold)
        with busy(number):
            tell(self.reviewer, "reviews_extend", {"seconds": 600}, hold_id=hold)

    def at_once(self) -> None:
        holds = [self.hold(self.started(task("draft", each, **AFTER))) for each in ("one", "two")]
        chosen = [{"hold_id": each["hold_id"], "version": each["version"]} for each in holds]
        body = {"action": "reject", "comment": "Not needed any more.", "holds": chosen}
        self.told.tell(self.reviewer, "reviews_bulk", body)

    def two_approvals(self) -> None:
        hold = self.decided(self.started(task("draft", "hello", **AFTER, quorum=2)))["hold_id"]
        why = {"comment": "I read the wrong draft."}
        self.told.tell(self.reviewer, "reviews_withdraw", why, hold_id=hold)

    def a_secret(self) -> None:
        hold = self.hold(self.started(task("send", LETTER, **BEFORE)))
        mask = hold["masked"][0]
        body = {"place": mask["place"], "number": mask["number"]}
        self.told.tell(self.reviewer, "reviews_reveal", body)

    def notices(self) -> None:
        self.notice()
        tell = self.told.tell
        found = tell(self.reviewer, "notifications_list", query="page_size=1")["results"][0]
        tell(self.reviewer, "notifications_read", {"ids": [found["id"]]})
        wishes = tell(self.reviewer, "notifications_preferences")
        body = {**wishes, "mailed": ["escalated"]}
        tell(self.reviewer, "notifications_preferences_update", body)

    # ------------------------------------------------------------ workflows and rules

    def workflows(self) -> None:
        plan, tell = {"tasks": [task("hello", "hello")]}, self.told.tell
        body = {"name": "twice", "title": "Say it twice", "plan": plan}
        tell(self.admin, "workflows_create", body)
        tell(self.admin, "workflows_get", name="twice")
        tell(self.admin, "workflows_list")
        described = {"description": "Says it, and says it again."}
        tell(self.admin, "workflows_change", described, name="twice")
        again = task("again", {"$from": "hello"})
        new = {**body, **described, "plan": {"tasks": [*plan["tasks"], again]}}
        tell(self.admin, "workflows_replace", new, name="twice")
        versions = {"workflow_name": "twice", "number": 1}
        tell(self.admin, "workflow_versions_list", workflow_name="twice")
        tell(self.admin, "workflow_versions_get", **versions)
        tell(self.admin, "workflow_versions_restore", **versions)
        tell(self.admin, "workflows_delete", name="twice")

    def rules(self) -> None:
        """Refunds of ten and less were approved, so they need no review any more."""
        plan = {"tasks": [task("refund", {"$from": "inputs", "select": "amount"}, **BEFORE)]}
        tell, made = self.told.tell, {"name": "refund", "title": "Refund", "plan": plan}
        tell(self.admin, "workflows_create", made)
        for amount, answer in ((5, {}), (8, {}), (400, {"decision": "REJECT", "comment": "No."})):
            body = {"workflow": "refund", "inputs": {"amount": amount}}
            run = tell(self.operator, "executions_start", body)["id"]
            run_to_rest(int(run))
            self.decided(run, **answer)
        rule = {"name": "small", "tasks": ["refund"], "skip_when": "inputs.value <= `10`"}
        asked = {"workflow": "refund", "rules": [rule]}
        number = tell(self.operator, "backtests_create", asked)["id"]
        assert not backtests_jobs.advance(int(number))
        tell(self.operator, "backtests_get", backtest_id=number)
        tell(self.operator, "backtests_list")
        published = {"backtest": number, "comment": "For a month."}
        tell(self.operator, "rules_publish", published, workflow_name="refund")
        tell(self.operator, "rules_list", workflow_name="refund")

    # ------------------------------------------------------------ code and what it may do

    def code(self) -> None:
        code = {"id": "sum", "type": "code_execution", "language": "python", "code": "1 + 1"}
        named = {"task_id": "sum", "name": "two", "description": "Adds two numbers."}
        body = {"execution_id": self.started(code), **named}
        self.told.tell(self.operator, "capabilities_create", body)
        self.told.tell(self.operator, "capabilities_list")
        self.told.tell(self.operator, "capabilities_get", name="two")

    def grants(self) -> None:
        code = 'fetch("https://example.com/")["text"]'
        asks = {"id": "read", "type": "code_execution", "language": "python", "code": code}
        self.decided(self.started(asks), comment="For this once.")
        found = self.told.tell(self.reviewer, "grants_list")["results"][0]
        self.told.tell(self.reviewer, "grants_revoke", grant_id=found["id"])

    def servers(self) -> None:
        tell = self.told.tell
        body = {
            "name": "tickets",
            "transport": "http",
            "url": "http://127.0.0.1:9/mcp",
            "headers": {"X-Tickets-Key": "7d1c"},
        }
        number = tell(self.admin, "mcp_servers_create", body)["id"]
        tell(self.admin, "mcp_servers_list")
        tell(self.admin, "mcp_servers_get", server_id=number)
        tell(self.admin, "mcp_servers_change", {"enabled": False}, server_id=number)
        tell(self.admin, "mcp_servers_sync", server_id=number)
        tell(self.admin, "mcp_servers_delete", server_id=number)

    def tokens(self) -> None:
        body = {"name": "nightly", "scopes": ["read", "run"], "workflows": ["refund"]}
        number = self.told.tell(self.admin, "tokens_create", body)["id"]
        self.told.tell(self.admin, "tokens_list", query="page_size=1")
        self.told.tell(self.admin, "tokens_get", token_id=number)
        self.told.tell(self.admin, "tokens_revoke", token_id=number)

    def approval_policies(self) -> None:
        tell = self.told.tell
        body = {"pattern": "payments.*", "groups": ["reviewer"], "minimum_risk": "medium"}
        number = tell(self.admin, "approval_policies_create", body)["id"]
        tell(self.admin, "approval_policies_list")
        tell(self.admin, "approval_policies_get", policy_id=number)
        tell(self.admin, "approval_policies_change", {"quorum": 2}, policy_id=number)
        tell(self.admin, "approval_policies_delete", policy_id=number)

    def retention(self) -> None:
        tell = self.told.tell
        body = {"keep_days": 365, "erase_records": True}
        number = tell(self.admin, "retention_policies_create", body)["id"]
        tell(self.admin, "retention_policies_list")
        tell(self.admin, "retention_policies_preview", retention_policy_id=number)
        enabled = {"enabled": True}
        tell(self.admin, "retention_policies_change", enabled, retention_policy_id=number)
        tell(self.admin, "retention_policies_get", retention_policy_id=number)
        tell(self.admin, "retention_policies_delete", retention_policy_id=number)
        run = self.started(task("a", "x"), title="Refund 4711")
        case = {"execution_id": run, "reason": "Case 2026/7"}
        held = tell(self.admin, "legal_holds_place", case)["id"]
        tell(self.admin, "legal_holds_list")
        tell(self.admin, "legal_holds_get", legal_hold_id=held)
        tell(self.admin, "legal_holds_lift", {"reason": "Case closed"}, legal_hold_id=held)

    def approvals(self) -> None:
        tell, agent = self.told.tell, self.operator
        arguments = {"to": "ACME", "amount": 250}
        action = {
            "name": "payments.transfer",
            "title": "Pay invoice 4711",
            "arguments": arguments,
        }
        body = {"action": action, "requested_by": {"agent": "billing-bot", "session": "42"}}
        made = tell(agent, "approvals_ask", {**body, "timeout_seconds": 3600})
        number, execution = made["id"], made["execution_id"]
        self.decided(execution, decision="REQUEST_CHANGES", comment="Only half of it, please.")
        run_to_rest(int(execution))
        changed = {"arguments": {**arguments, "amount": 125}}
        tell(agent, "approvals_resubmit", changed, approval_id=number)
        self.decided(execution, comment="Fine.")
        run_to_rest(int(execution))
        tell(agent, "approvals_get", approval_id=number)
        report = {"ok": True, "output": {"receipt": "R-1"}, **changed}
        tell(agent, "approvals_result", report, approval_id=number)
        other = tell(agent, "approvals_ask", body)["id"]
        tell(agent, "approvals_cancel", {"reason": "Not needed any more."}, approval_id=other)
        tell(agent, "approvals_list", query="page_size=1")
        event = {
            "session_id": "5f2c",
            "cwd": "/src/shop",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "make deploy", "description": "Deploy the shop"},
            "tool_use_id": "toolu_01",
        }
        tell(agent, "hooks_ask", event, query="wait=0", agent="claude-code")
        tell(agent, "hooks_stop", event, agent="claude-code")

    def tools(self) -> None:
        tell, words = self.told.tell, "list the entries of a folder"
        tell(self.operator, "tools_list", query="page_size=1")
        tell(self.operator, "tools_retrieve", name="builtin.echo")
        tell(self.operator, "tools_search_retrieve", query="query=list+a+folder&limit=1")
        tell(self.operator, "tools_search_create", {"query": words, "limit": 1, "read_only": True})
        asked = {"intent": "list the entries of a directory", "inputs": {"path": "."}, "limit": 1}
        tell(self.operator, "tools_suggest_create", asked)
        for number in range(3):
            learn(
                execution_key=f"{number}", layers=[["builtin.list_directory"], ["builtin.select"]]
            )
        tell(self.operator, "tools_next_retrieve", query="done=builtin.list_directory&limit=1")

    # ------------------------------------------------------------ webhooks

    def hook(self, **fields: Any) -> str:
        body = {"name": "orders", "url": self.receiver.url, "events": ["workflow_paused"], **fields}
        return str(self.told.tell(self.operator, "webhooks_create", body)["id"])

    def webhooks(self) -> None:
        tell, number = self.told.tell, self.hook()
        tell(self.operator, "webhooks_get", webhook_id=number)
        tell(self.operator, "webhooks_list", query="page_size=1")
        change = {"events": ["workflow_paused", "workflow_complete"], "include_data": True}
        tell(self.operator, "webhooks_change", change, webhook_id=number)
        tell(self.operator, "webhooks_rotate", webhook_id=number)
        tell(self.operator, "webhooks_ping", webhook_id=number)
        WebhookEndpoint.objects.filter(pk=number).update(
            parked_at=timezone.now(), parked_reason="20 attempts in a row failed"
        )
        tell(self.operator, "webhooks_resume", {"skip": True}, webhook_id=number)
        tell(self.operator, "webhooks_delete", webhook_id=number)

    def deliveries(self) -> None:
        tell, number = self.told.tell, self.hook()
        self.started(task("draft", "hello", **AFTER))
        self.send()
        row = tell(self.operator, "webhook_deliveries_list", webhook_id=number)["results"][0]
        path = {"webhook_id": number, "delivery_id": row["id"]}
        tell(self.operator, "webhook_deliveries_get", **path)
        tell(self.operator, "webhook_deliveries_redeliver", **path)
