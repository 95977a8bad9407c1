"""Fill one instance with the runs and decisions that the screenshots show.

Everything is done as users do it, over REST with their tokens; nothing is written into tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.e2e.desk import until
from tests.e2e.product import Product
from tests.e2e.test_review import Api

SECONDS = 90
#: How many commits each past digest had, and what somebody did with it.
PAST = (
    (3, "APPROVE", ""),
    (4, "APPROVE", ""),
    (12, "EDIT", "Leave the merge commits out."),
    (5, "APPROVE", ""),
    (18, "REJECT", "Too long for one mail."),
    (2, "APPROVE", "Good as it is."),
    (9, "EDIT", ""),
    (5, "APPROVE", ""),
)
SHORT = {"name": "short digests", "tasks": ["digest"], "skip_when": "output.commits <= `6`"}
HALF = {"name": "every other one", "tasks": ["digest"], "sample": 0.5}
#: It may not connect anywhere before somebody allows it.
CODE = 'answer = fetch(page)\n{"page": page, "status": answer["status"]}'
LOGIN = {"host": "mail.example", "user": "digest", "password": "correct-horse-battery"}
NOTES = "<notes><note>The pears are ripe.</note></notes>"
OURS = "Our own host; nothing leaves the machine."


class Stage:
    """The numbers of the runs that the pictures show, by what is to be seen there."""

    def __init__(self, product: Product, receiver: str) -> None:
        self.product = product
        self.admin = Api(product, "admin", "read,run,decide,admin")
        self.operator = Api(product, "operator", "read,run", "Nightly runs")
        self.reviewer = Api(product, "reviewer", "read,decide")
        self.second = Api(product, "reviewer2", "read,decide")
        self.auditor = Api(product, "auditor", "read,decide")
        hook = {"name": "Release channel", "url": receiver, "events": []}
        self.webhook = done(self.operator("webhooks/", hook))["id"]
        self.past_digests()
        self.tried, self.published = self.backtests()
        self.spared()
        self.written = self.a_whole_release()
        self.grown = self.a_plan_that_grew()
        self.plan_review = self.a_plan_change()
        self.layer = self.a_layer()
        self.allowed, self.asking = self.code_that_asked(), self.start_code()
        self.waits = self.a_decision()
        self.login = self.a_login()
        self.half = self.half_decided()
        self.expired = self.timed_out()
        self.reminded = self.start_echo("Quarterly figures", reminders=[{"after_seconds": 1}])
        self.denied(self.waits)

    # --- the parts --------------------------------------------------------------------------------

    def past_digests(self) -> None:
        """A workflow whose one review is a matter of taste, and what people did there."""
        repo = done(self.admin("workflows/release-notes/"))["default_inputs"]["repo"]
        digest = {
            "id": "digest",
            "title": "Write the digest",
            "type": "tool",
            "tool": "demo.draft_release_notes",
            "arguments": {"log": {"$from": "log"}, "title": "This week"},
            "human_review": {"trigger_phase": "AFTER_EXECUTION", "on_timeout": "keep_waiting"},
        }
        count = {"$from": "inputs", "select": "count"}
        log = {
            "id": "log",
            "title": "Read the log",
            "type": "tool",
            "tool": "git.git_log",
            "arguments": {"repo_path": repo, "max_count": count},
        }
        body = {
            "name": "weekly-digest",
            "title": "Weekly digest",
            "description": "Reads what was committed, and writes a mail about it.",
            "inputs_schema": {"type": "object", "properties": {"count": {"type": "integer"}}},
            "plan": {"tasks": [log, digest]},
        }
        done(self.admin("workflows/", body))
        for number, (commits, what, comment) in enumerate(PAST):
            run = self.start_digest(commits)
            who = self.second if number % 3 == 2 else self.reviewer
            edits = {"title": "What we did this week"} if what == "EDIT" else {}
            self.decide(who, run, "APPROVE" if edits else what, comment, **edits)

    def start_digest(self, commits: int) -> str:
        body = {"workflow": "weekly-digest", "inputs": {"count": commits}}
        run = str(done(self.operator("executions/", body))["id"])
        until(self.operator, run, "PAUSED_FOR_REVIEW", "COMPLETED")
        return run

    def backtests(self) -> tuple[str, str]:
        """One that would have spared too much, and one whose rules are in force."""
        wide, short = self.backtest(SHORT, HALF), self.backtest(SHORT)
        said = {"backtest": short, "comment": "Nobody ever changed a short one."}
        done(self.admin("workflows/weekly-digest/rules/", said))
        return wide, short

    def backtest(self, *rules: dict[str, Any]) -> str:
        body = {"workflow": "weekly-digest", "rules": list(rules)}
        number = str(done(self.admin("backtests/", body))["id"])
        wait(lambda: done(self.admin(f"backtests/{number}/"))["status"] == "DONE", "a backtest")
        return number

    def spared(self) -> None:
        for commits in (4, 2, 6):
            until(self.operator, self.start_digest(commits), "COMPLETED")

    def a_whole_release(self) -> str:
        """Sent back once, edited, written; the graph has learned of it."""
        run = self.start_release()
        self.decide(self.reviewer, run, "REQUEST_CHANGES", "Shorter, and no contributors please.")
        self.next_hold(run, 2)
        self.decide(self.reviewer, run, "APPROVE", "Better.", title="What is new")
        self.next_hold(run, 3)
        self.decide(self.second, run, "APPROVE", "", path="release/NOTES.md")
        until(self.operator, run, "COMPLETED")
        return run

    def start_release(self) -> str:
        run = str(
            done(self.admin("executions/", {"workflow": "release-notes", "inputs": RELEASE}))["id"]
        )
        until(self.admin, run, "PAUSED_FOR_REVIEW")
        return run

    def a_plan_that_grew(self) -> str:
        run = self.start_to_grow(replan_review=False)
        wait(lambda: done(self.operator(f"executions/{run}/"))["revision"] == 2, "the plan grows")
        return run

    def a_plan_change(self) -> str:
        """A change of a plan that waits for its review; the place of the review."""
        run = self.start_to_grow(replan_review=True)
        return self.place_of(run, "replan_review")

    def start_to_grow(self, *, replan_review: bool) -> str:
        tasks = [echo("notes", NOTES), echo("summary", {"$from": "notes"})]
        policy = {"per_layer_validation": True, "replan_review": replan_review}
        body = {"title": "Read the notes", "plan": {"tasks": tasks}, "policy": policy}
        run = str(done(self.operator("executions/", body))["id"])
        until(self.operator, run, "AWAITING_AGENT")
        command = {"kind": "replan", "new_requirement": "parse XML files"}
        done(self.operator(f"executions/{run}/commands/", command))
        return run

    def a_layer(self) -> str:
        """Two files are about to be written, and every layer is approved first; its place."""
        policy = {
            "hil": {"enabled": True, "approval_required": "always", "timeout_seconds": 86_400}
        }
        tasks = [
            {
                "id": name,
                "title": title,
                "type": "tool",
                "tool": "builtin.write_file",
                "arguments": {"path": f"report/{name}.md", "content": f"# {title}\n\nTen pears."},
            }
            for name, title in (("summary", "Write the summary"), ("figures", "Write the figures"))
        ]
        body = {"title": "Quarterly report", "plan": {"tasks": tasks}, "policy": policy}
        run = str(done(self.operator("executions/", body))["id"])
        return self.place_of(run, "layer_approval")

    def place_of(self, run: str, reason: str) -> str:
        """The run and the hold of this kind, once it is open, as in its address."""
        until(self.operator, run, "PAUSED_FOR_REVIEW")
        holds = done(self.operator(f"executions/{run}/"))["holds"]
        (found,) = [each for each in holds if (each["status"], each["reason"]) == ("OPEN", reason)]
        return f"{run}/{found['id']}"

    def code_that_asked(self) -> str:
        run = self.start_code()
        self.decide(self.reviewer, run, "APPROVE", OURS)
        until(self.operator, run, "COMPLETED")
        kept = {"execution_id": run, "task_id": "page_status", "name": "page_status"}
        done(self.operator("capabilities/", kept))
        return run

    def start_code(self) -> str:
        task = {
            "id": "page_status",
            "title": "Look whether the page is up",
            "type": "code_execution",
            "language": "python",
            "code": CODE,
            "inputs": {"page": f"{self.product.address}/livez"},
            "timeout_seconds": 20,
        }
        body = {"title": "Is the page up?", "plan": {"tasks": [task]}}
        run = str(done(self.operator("executions/", body))["id"])
        until(self.operator, run, "PAUSED_FOR_REVIEW")
        return run

    def a_decision(self) -> str:
        """A release whose file is about to be written."""
        run = self.start_release()
        self.decide(self.reviewer, run, "APPROVE", "")
        self.next_hold(run, 2)
        return run

    def a_login(self) -> str:
        """A payload with a password, which somebody had shown."""
        run = self.start_echo("Send the digest", value=LOGIN)
        shown = {"place": f"hold:{run}-1", "number": 1}
        done(self.reviewer("reviews/reveal/", shown))
        return run

    def start_echo(
        self, title: str, *, value: Any = "Figures of the quarter", **review: Any
    ) -> str:
        asked = {"trigger_phase": "BEFORE_EXECUTION", "on_timeout": "keep_waiting", **review}
        task = echo("send", value) | {"human_review": asked}
        run = str(
            done(self.operator("executions/", {"title": title, "plan": {"tasks": [task]}}))["id"]
        )
        until(self.operator, run, "PAUSED_FOR_REVIEW")
        return run

    def half_decided(self) -> str:
        """One of two people has approved."""
        run = self.start_echo("Pay the invoice", quorum=2)
        self.decide(self.second, run, "APPROVE", "The sum is right.")
        return run

    def timed_out(self) -> str:
        run = self.start_echo("Publish the notes", on_timeout="reject", timeout_seconds=1)
        until(self.operator, run, "ABORTED")
        return run

    def denied(self, run: str) -> None:
        """Two who may not decide try to."""
        for api in (self.auditor, Api(self.product, "operator", "read,decide", "A trial")):
            status, answer = api("reviews/resume/", self.answer(run, "APPROVE"))
            assert status == 403, answer

    def number_of(self, workflow: str) -> str:
        """The number in the address of a workflow's page."""
        return str(done(self.admin(f"workflows/{workflow}/"))["id"])

    def record_of(self, run: str) -> str:
        """The record of this run in which most was changed."""
        rows = done(self.auditor(f"reviews/history/?execution={run}"))["results"]
        return str(max(rows, key=lambda row: (row["is_edited"], row["id"]))["id"])

    # --- deciding ---------------------------------------------------------------------------------

    def decide(self, api: Api, run: str, decision: str, comment: str, **edits: Any) -> None:
        """Decide what waits; `edits` change fields of what is shown."""
        answer = self.answer(run, decision) | {"comment": comment}
        if edits:
            shown = done(api(f"reviews/pending/{run}/"))["holds"][0]["payload"]
            answer["edits"] = {**shown, **edits}
        done(api("reviews/resume/", answer))

    def answer(self, run: str, decision: str) -> dict[str, Any]:
        found = done(self.admin(f"executions/{run}/"))
        hold = next(each for each in found["holds"] if each["status"] == "OPEN")
        return {
            "execution_id": run,
            "hold_id": hold["id"],
            "version": found["version"],
            "decision": decision,
        }

    def next_hold(self, run: str, number: int) -> None:
        """Until hold `number` of the run is open."""

        def is_open() -> bool:
            holds = done(self.admin(f"executions/{run}/"))["holds"]
            return any(h["id"] == f"{run}-{number}" and h["status"] == "OPEN" for h in holds)

        wait(is_open, f"hold {number} of run {run}")


#: What the release notes of the pictures are made with.
RELEASE = {"count": 12, "title": "What is new", "path": "NOTES.md"}


def echo(name: str, value: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "builtin.echo", "arguments": {"value": value}}


def done(answer: tuple[int, Any]) -> Any:
    """The body of an answer that says it was done."""
    status, body = answer
    assert status in {200, 201, 202}, (status, body)
    return body


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"gave up waiting: {what}"
        time.sleep(0.1)
