"""Runs in the states that the pages show, for the tests that walk through all of them."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

from tests.e2e.product import Product
from tests.e2e.test_review import Api, wait_for_pause


class Scene:
    """Runs in the states that the pages show."""

    def __init__(self, product: Product, page: Page) -> None:
        self.api = Api(product, "operator", "read,run")
        self.other = Api(product, "reviewer2", "read,decide")
        self.page = page
        self.before = self.start("Before it runs", echo("a", phase="BEFORE_EXECUTION"))
        self.after = self.start("After it ran", echo("a", phase="AFTER_EXECUTION"))
        self.decided = self.start("Soon decided", echo("a", phase="BEFORE_EXECUTION"), echo("b"))
        self.done = self.start("Done", echo("a"))
        self.escalated = self.start("Escalated", ask(product))
        self.half = self.start("Half decided", echo("a", phase="BEFORE_EXECUTION", quorum=2))
        brief = {"timeout_seconds": 1, "on_timeout": "reject"}
        self.expired = self.start("Expired", echo("a", phase="BEFORE_EXECUTION", **brief))
        #: Somebody else decides while the page is open: one for the desk, one for the admin.
        self.overtaken = [
            self.start(f"Overtaken {number}", echo("a", phase="BEFORE_EXECUTION"))
            for number in (1, 2)
        ]
        every_layer = {
            "hil": {"enabled": True, "approval_required": "always", "timeout_seconds": 3600}
        }
        chain = (echo("a"), echo("b", {"$from": "a"}))
        self.layered = self.start("Layered", *chain, policy=every_layer)
        reviewed = {"per_layer_validation": True, "replan_review": True}
        self.changed = self.start("Changed", *chain, policy=reviewed)
        waits = {"per_layer_validation": True, "replan_review": False}
        self.grown = self.start("Grown", *chain, policy=waits)
        grow = {"kind": "replan", "new_requirement": "parse XML files"}
        for run in (self.grown, self.changed):
            self.until(run, "AWAITING_AGENT")
            status, answer = self.api(f"executions/{run}/commands/", grow)
            assert status in {200, 202}, answer
        for run in (self.before, self.after, self.decided, self.half, *self.overtaken):
            wait_for_pause(self.api, run, "a", page)
        self.approve(self.half)
        self.until(self.expired, "COMPLETED", "FAILED", "ABORTED")
        wait_for_pause(self.api, self.escalated, "page_status", page)
        #: The open holds of a layer approval and of a plan review.
        self.layer_approval = self.open_hold(self.layered, "layer_approval")
        self.plan_review = self.open_hold(self.changed, "replan_review")

    def start(self, title: str, *tasks: dict[str, Any], **more: Any) -> str:
        status, answer = self.api("executions/", {"title": title, "plan": {"tasks": tasks}, **more})
        assert status == 201, answer
        return str(answer["id"])

    def approve(self, run: str) -> None:
        """Another reviewer does, elsewhere."""
        answer = {
            "execution_id": run,
            "hold_id": f"{run}-1",
            "version": self.api(f"executions/{run}/")[1]["version"],
            "decision": "APPROVE",
        }
        status, said = self.other("reviews/resume/", answer)
        assert status in {200, 202}, said

    def open_hold(self, run: str, reason: str) -> str:
        """The id of the open hold of this kind."""
        self.until(run, "PAUSED_FOR_REVIEW")
        holds = self.api(f"executions/{run}/")[1]["holds"]
        (found,) = [each for each in holds if (each["status"], each["reason"]) == ("OPEN", reason)]
        return str(found["id"])

    def until(self, run: str, *statuses: str) -> None:
        for _ in range(300):
            _, found = self.api(f"executions/{run}/")
            if found["status"] in statuses:
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"run {run} never was {statuses}: {found}")


def echo(name: str, value: Any = "x", phase: str = "", **review: Any) -> dict[str, Any]:
    task: dict[str, Any] = {"id": name, "type": "tool", "tool": "builtin.echo"}
    task["arguments"] = {"value": value}
    if phase:
        task["human_review"] = {"trigger_phase": phase, "timeout_seconds": 3600, **review}
    return task


def ask(product: Product) -> dict[str, Any]:
    inputs = {"page": f"{product.address}/static/reviews/icon.svg"}
    code = "answer = fetch(page)\nanswer['status']"
    task = {"id": "page_status", "type": "code_execution", "language": "python", "code": code}
    return {**task, "inputs": inputs, "timeout_seconds": 20}
