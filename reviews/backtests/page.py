"""Backtests: drafting rules, and the form as it was filled in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.http import QueryDict
from django.urls import reverse
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _

from reviews.backtests import past_reviews, services
from reviews.backtests.totals import headline
from reviews.models import Backtest
from reviews.templatetags.desk import lasting_words
from workflows.common.number_parsing import parse_natural_number
from workflows.common.redaction import redact
from workflows.engine.plan_validation import Problem
from workflows.engine.policy import ReviewRules
from workflows.engine.review_rules import judged
from workflows.executions.access import workflows_for
from workflows.executions.validation import InvalidRequest
from workflows.models import Workflow
from workflows.review_rules import active_rules
from workflows.review_rules import publish as review_rules_publish

from .labels import rule_sentence

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Past reviews that a draft is tried on while it is written, and how many are looked through.
EXAMPLES: Final = 5
_LOOKED_THROUGH: Final = 100
_LONGEST: Final = 1200
_MOST_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Draft:
    """What the form says: the whole list of rules, and the days of the history."""

    rules: list[Mapping[str, Any]]
    rule: dict[str, Any]
    since: datetime | None
    until: datetime | None
    problems: tuple[Problem, ...] = ()


def workflow_of(user: User, text: str) -> Workflow | None:
    """The workflow whose number was chosen."""
    return workflows_for(user).filter(pk=parse_natural_number(text) or 0).first()


def read_draft(workflow: Workflow, form: QueryDict) -> Draft:
    """The form's rules: those of today that were kept, and the one that is drafted."""
    problems: list[Problem] = []
    rule: dict[str, Any] = {"name": form.get("name", "").strip()}
    for key, field in (("tools", "tool"), ("tasks", "task")):
        if form.get(field):
            rule[key] = [str(form[field])]
    for key in ("phase", "skip_when"):
        if text := str(form.get(key, "")).strip():
            rule[key] = text
    sample = form.get("sample", "").strip()
    if sample:
        rule["sample"] = _share(sample, problems)
    kept = set(form.getlist("keep"))
    in_force = [
        each.model_dump(mode="json", exclude_none=True)
        for each in active_rules.current_rules(workflow).rules
        if each.name in kept
    ]
    return Draft(
        rules=services.with_rule(in_force, rule),
        rule=rule,
        since=_day(form, "from", problems, days=0),
        until=_day(form, "to", problems, days=1),
        problems=tuple(problems),
    )


def _share(text: str, problems: list[Problem]) -> float | None:
    try:
        percent = float(text.replace(",", "."))
    except ValueError:
        percent = -1
    if not 0 <= percent <= 100:
        problems.append(Problem("sample", "invalid", _("must be a number from 0 to 100")))
        return None
    return round(percent / 100, 6)


def _day(form: QueryDict, name: str, problems: list[Problem], *, days: int) -> datetime | None:
    text = form.get(name, "").strip()
    if not text:
        return None
    try:
        day = parse_date(text)
        if day is not None:
            return datetime.combine(day, time(), tzinfo=UTC) + timedelta(days=days)
    except (ValueError, OverflowError):
        pass
    problems.append(Problem(name, "invalid", _("must be a date like 2026-01-31")))
    return None


# --- the page -------------------------------------------------------------------------------------


def draft_context(
    user: User,
    workflow: Workflow | None,
    form: QueryDict,
    problems: tuple[Problem, ...] = (),
    *,
    is_new: bool = True,
) -> dict[str, Any]:
    """The form for a workflow, or the choice of one, and the backtests there are."""
    rules = active_rules.current_rules(workflow) if workflow else ReviewRules()
    kept = {rule.name for rule in rules.rules} if is_new else set(form.getlist("keep"))
    return {
        "workflows": list(workflows_for(user).order_by("title").values("pk", "title")[:500]),
        "workflow": workflow,
        "version": rules.version,
        "in_force": [
            {"name": rule.name, "words": rule_sentence(rule), "kept": rule.name in kept}
            for rule in rules.rules
        ],
        "choices": _choices(workflow) if workflow else {},
        "form": {name: form.get(name, "") for name in _FIELDS},
        "problems": problems,
        "reports": [_report_row(each) for each in _reports(user, workflow)],
    }


_FIELDS: Final = ("name", "task", "tool", "phase", "skip_when", "sample", "from", "to")


def _reports(user: User, workflow: Workflow | None) -> list[Backtest]:
    rows = services.visible(user)
    return list((rows.filter(workflow=workflow) if workflow else rows)[:_MOST_LISTED])


def _choices(workflow: Workflow) -> dict[str, list[str]]:
    """Tasks that ask for review, and their tools."""
    plan = workflow.plan if isinstance(workflow.plan, dict) else {}
    asking = [
        task
        for task in plan.get("tasks", ())
        if isinstance(task, dict)
        and isinstance(task.get("human_review"), dict)
        and task["human_review"].get("enabled", True)
    ]
    return {
        "tasks": [str(task.get("id")) for task in asking],
        "tools": sorted({str(task["tool"]) for task in asking if task.get("tool")}),
    }


def _report_row(backtest: Backtest) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": backtest.pk,
        "url": reverse("reviews:backtest_report", args=(backtest.pk,)),
        "workflow": backtest.workflow.title,
        "rules": [rule_sentence(rule) for rule in _rules(backtest)],
        "names": ", ".join(str(rule["name"]) for rule in backtest.rules),
        "at": backtest.created_at,
        "author": backtest.author_name,
        "status": backtest.get_status_display(),
        "is_done": backtest.status == Backtest.Status.DONE,
    }
    if row["is_done"]:
        row["figures"] = headline(backtest.report)
        row["waited"] = lasting_words(backtest.report["waited_seconds"])
    return row


def _rules(backtest: Backtest) -> tuple[Any, ...]:
    return ReviewRules.model_validate({"rules": backtest.rules}).rules


# --- while it is written --------------------------------------------------------------------------


def check_context(workflow: Workflow, draft: Draft) -> dict[str, Any]:
    """What is wrong with the draft, else what it says to the newest reviews that it is for."""
    if "skip_when" not in draft.rule and draft.rule.get("sample") is None:
        return {"problems": draft.problems, "examples": (), "is_blank": True}
    try:
        rules, _kept = review_rules_publish.checked_rules(workflow, [_named(draft.rule)])
    except InvalidRequest as invalid:
        return {"problems": (*draft.problems, *invalid.problems), "examples": ()}
    return {"problems": draft.problems, "examples": tuple(_examples(workflow, rules))}


def _named(rule: dict[str, Any]) -> dict[str, Any]:
    """A draft is tried before it has a name."""
    return {**rule, "name": rule.get("name") or "draft"}


def _examples(workflow: Workflow, rules: ReviewRules) -> list[dict[str, Any]]:
    probe = Backtest(workflow=workflow, newest=past_reviews.newest_record())
    [rule] = rules.rules
    found: list[dict[str, Any]] = []
    for each in past_reviews.batch(probe, cursor=0, limit=_LOOKED_THROUGH):
        past = each.past
        if not rule.is_for(task_id=past.node, target=past.target, phase=each.phase):
            continue
        if each.unknown or len(found) == EXAMPLES:
            continue
        verdict = judged(each.task, each.phase, rules, each.document, run=each.run)
        text = json.dumps(redact(each.document), indent=2, ensure_ascii=False, default=str)
        found.append(
            {
                "url": reverse("reviews:record", args=(past.record,)),
                "title": f"{past.node} · {past.execution}",
                "outcome": past.outcome,
                "spared": verdict.spared,
                "why": verdict.why,
                "document": text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …",
            }
        )
    return found
