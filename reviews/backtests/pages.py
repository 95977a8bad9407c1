"""Contexts of the backtest pages: draft, report, and versions of the rules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.http import QueryDict
from django.urls import reverse
from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.authoring.fields import values_of
from reviews.authoring.policy_form import skip_modes
from reviews.authoring.rule_rows import BadRow, path_text, posted_expression, rows_context
from reviews.backtests import preview, services
from reviews.backtests.past_reviews import ReviewCase
from reviews.backtests.totals import LISTED, Headline, headline
from reviews.components.number_formatting import grouped
from reviews.components.number_formatting import percent as share_text
from reviews.components.reasons import render_reason, render_stored
from reviews.components.tables import Row, Table
from reviews.insights.charts import shares
from reviews.models import Backtest
from reviews.templatetags.desk import lasting_text
from workflows.common.number_parsing import parse_natural_number
from workflows.common.redaction import redact
from workflows.engine.plans.validation import Problem
from workflows.engine.policy.policies import ReviewRule, ReviewRules, TriggerPhase
from workflows.engine.protocol.review_rules import Verdict
from workflows.executions.access import may_backtest, may_publish_rules, workflows_for
from workflows.executions.validation import InvalidRequest
from workflows.models import RuleVersion, Workflow
from workflows.review_rules import active_rules
from workflows.review_rules import publish as review_rules_publish

if TYPE_CHECKING:
    from django.contrib.auth.models import User


#: Past reviews shown as examples of a draft.
EXAMPLES: Final = 5
_MAX_LENGTH: Final = 1200
_MAX_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Draft:
    """The parsed form: the whole list of rules, and the range of the history."""

    rules: list[Mapping[str, Any]]
    rule: dict[str, Any]
    since: datetime | None
    until: datetime | None
    problems: tuple[Problem, ...] = ()


def workflow_of(user: User, text: str) -> Workflow | None:
    """Return the visible workflow with this id."""
    return workflows_for(user).filter(pk=parse_natural_number(text) or 0).first()


def read_draft(workflow: Workflow, form: QueryDict) -> Draft:
    """Parse the form: the active rules that were kept, and the draft."""
    problems: list[Problem] = []
    rule: dict[str, Any] = {"name": form.get("name", "").strip()}
    for key, field in (("tools", "tool"), ("tasks", "task")):
        if form.get(field):
            rule[key] = [str(form[field])]
    if phase := str(form.get("phase", "")).strip():
        rule["phase"] = phase
    try:
        if condition := posted_expression(form, "skip_when", ""):
            rule["skip_when"] = condition
    except BadRow as error:
        problems.append(Problem("skip_when", "unreadable", str(error)))
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
    """Return the context of the draft page: workflow choice, form and backtests."""
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
        "condition": rows_context(
            "skip_when",
            str(form.get("skip_when", "")),
            form,
            fields=_fields(workflow) if workflow else (),
            modes={**skip_modes(), "": _("without a condition")},
        ),
        "form": {name: form.get(name, "") for name in _FIELDS},
        "problems": problems,
        "reports": [_report_row(each) for each in _reports(user, workflow)],
    }


_FIELDS: Final = ("name", "task", "tool", "phase", "sample", "from", "to")


def _reports(user: User, workflow: Workflow | None) -> list[Backtest]:
    rows = services.visible(user)
    return list((rows.filter(workflow=workflow) if workflow else rows)[:_MAX_LISTED])


def _choices(workflow: Workflow) -> dict[str, list[str]]:
    """Return the tasks with a review and their tools."""
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


def _fields(workflow: Workflow) -> tuple[str, ...]:
    """Return paths of the data of reviewed tasks, for conditions."""
    plan = workflow.plan if isinstance(workflow.plan, dict) else {}
    asking = set(_choices(workflow)["tasks"])
    names = {
        name
        for task in plan.get("tasks", ())
        if isinstance(task, dict) and str(task.get("id")) in asking
        for name in values_of(task)
    }
    return (*(path_text(("inputs", name)) for name in sorted(names)), "output")


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
        row["waited"] = lasting_text(backtest.report["waited_seconds"])
    return row


def _rules(backtest: Backtest) -> tuple[Any, ...]:
    return ReviewRules.model_validate({"rules": backtest.rules}).rules


# --- draft check ----------------------------------------------------------------------------------


def check_context(workflow: Workflow, draft: Draft) -> dict[str, Any]:
    """Return the problems of the draft, or its effect on the newest matching reviews."""
    if draft.problems:
        return {"problems": draft.problems, "examples": ()}
    if "skip_when" not in draft.rule and draft.rule.get("sample") is None:
        return {"problems": draft.problems, "examples": (), "is_blank": True}
    try:
        rules, _kept = review_rules_publish.checked_rules(workflow, [_named(draft.rule)])
    except InvalidRequest as invalid:
        return {"problems": (*draft.problems, *invalid.problems), "examples": ()}
    found = preview.of_rules(workflow, rules)
    return {
        "problems": draft.problems,
        "examples": tuple(_example(each, verdict) for each, verdict in found[:EXAMPLES]),
        "preview": preview_text(
            preview.Preview(len(found), sum(verdict.skips_review for _, verdict in found))
        ),
    }


def preview_text(found: preview.Preview) -> str:
    """Return `On the last 20 reviews it would have skipped 7.`; "" without reviews."""
    if not found.reviews:
        return ""
    text = ngettext(
        "On the last %(count)s review it would have skipped %(skipped)s.",
        "On the last %(count)s reviews it would have skipped %(skipped)s.",
        found.reviews,
    )
    return text % {"count": found.reviews, "skipped": found.skipped}


def _named(rule: dict[str, Any]) -> dict[str, Any]:
    """Give the draft a name, because it is evaluated before the person enters one."""
    return {**rule, "name": rule.get("name") or "draft"}


def _example(each: ReviewCase, verdict: Verdict) -> dict[str, Any]:
    text = json.dumps(redact(each.document), indent=2, ensure_ascii=False, default=str)
    return {
        "url": reverse("reviews:record", args=(each.past.record,)),
        "title": f"{each.past.node} · {each.past.execution}",
        "outcome": each.past.outcome,
        "spared": verdict.skips_review,
        "why": render_reason(verdict.reason) if verdict.reason else "",
        "document": text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]} …",
    }


# --- report ---------------------------------------------------------------------------------------


#: Parts of a bar, most relevant first.
_WORDS: Final = {
    "rejected": N_("skipped, was rejected"),
    "edited": N_("skipped, was edited"),
    "approved": N_("skipped, was approved unchanged"),
    "expired": N_("skipped, timed out"),
}


def report_context(user: User, backtest: Backtest) -> dict[str, Any]:
    """Return the context of a backtest: the report, or its progress."""
    in_force = active_rules.versions(backtest.workflow).first()
    context: dict[str, Any] = {
        "b": backtest,
        "is_done": backtest.status == Backtest.Status.DONE,
        "is_failed": backtest.status == Backtest.Status.FAILED,
        "progress_url": reverse("reviews:backtest_progress", args=(backtest.pk,)),
        "rules": [rule_sentence(each) for each in _review_rules(backtest).rules],
        "again_url": f"{reverse('reviews:backtest')}?workflow={backtest.workflow_id}",
        "range": _range(backtest),
    }
    if context["is_done"]:
        context |= _done(backtest)
        context["publish"] = _publish_context(user, backtest, in_force)
    return context


def _review_rules(backtest: Backtest) -> ReviewRules:
    return ReviewRules.model_validate({"rules": backtest.rules})


def _range(backtest: Backtest) -> str:
    first = backtest.since.date().isoformat() if backtest.since else ""
    last = backtest.until.date().isoformat() if backtest.until else ""
    if first and last:
        return _("reviews from %(first)s to before %(last)s") % {"first": first, "last": last}
    if first or last:
        word = _("reviews since %(day)s") if first else _("reviews before %(day)s")
        return word % {"day": first or last}
    return _("all reviews")


def _done(backtest: Backtest) -> dict[str, Any]:
    report = backtest.report
    found = headline(report)
    return {
        "sentence": sentence(found),
        "found": found,
        "rejected": [_row(each) for each in report["listed"]["rejected"]],
        "edited": [_row(each) for each in report["listed"]["edited"]],
        "listed": LISTED,
        "figures": _figures(report, found),
        "tables": (_by_tool(report), *_by_rule(report)),
        "caveats": _caveats(report, found),
        "kept": _still_reviewed(report),
        "errors": [_row(each) for each in report["errors"][:10]],
    }


def sentence(found: Headline) -> str:
    """Summarize the report in one sentence."""
    if not found.reviews:
        return _("There are no past reviews to test these rules against.")
    first = ngettext(
        "These rules would have skipped %(spared)s of %(count)s review.",
        "These rules would have skipped %(spared)s of %(count)s reviews.",
        found.reviews,
    ) % {"spared": found.spared, "count": found.reviews}
    if not found.spared:
        return first
    if not found.missed:
        return first + " " + _("Nobody edited or rejected any of them.")
    return (
        first
        + " "
        + ngettext(
            "%(count)s of them had been edited or rejected.",
            "%(count)s of them had been edited or rejected.",
            found.missed,
        )
        % {"count": found.missed}
    )


def _row(each: dict[str, Any]) -> dict[str, Any]:
    return {
        **each,
        "why": render_stored(each, "why"),
        "url": reverse("reviews:record", args=(each["record"],)),
    }


def _figures(report: dict[str, Any], found: Headline) -> tuple[dict[str, str], ...]:
    share = percent(round(found.spared / found.reviews, 3)) if found.reviews else "-"
    missed = percent(round(found.missed / found.spared, 3)) if found.spared else "-"
    known = report["desk_known"]
    desk = lasting_text(report["desk_seconds"]) if known else "-"
    by_people = found.spared - found.expired
    return (
        {
            "label": _("Skipped"),
            "value": share,
            "note": f"{grouped(found.spared)} / {grouped(found.reviews)}",
        },
        {
            "label": _("Edited or rejected"),
            "value": grouped(found.missed),
            "note": _("%(share)s of the skipped reviews") % {"share": missed},
        },
        {
            "label": _("Wait saved"),
            "value": lasting_text(report["waited_seconds"]) if by_people else "-",
            "note": _("from opened to decided, in total"),
        },
        {
            "label": _("Review time saved"),
            "value": desk,
            "note": _("from claimed to decided; known for %(known)s of %(all)s")
            % {"known": known, "all": by_people},
        },
    )


def _by_tool(report: dict[str, Any]) -> Table:
    """Return skipped reviews per tool, most first."""
    keys = (*((kind, _(label)) for kind, label in _WORDS.items()), ("kept", _("still reviewed")))
    counts = {name: _counted(each) for name, each in report["tools"].items()}
    most = max((sum(each.values()) for each in counts.values()), default=1)

    def order(name: str) -> tuple[int, int, str]:
        total = sum(counts[name].values())
        return (counts[name]["kept"] - total, -total, name)

    return Table(
        key="by-tool",
        heading=_("By tool"),
        legend=keys,
        first=_("Tool"),
        bars=_("Reviews"),
        columns=(
            _("All"),
            _("Skipped"),
            _("Edited"),
            _("Rejected"),
            _("Still reviewed"),
        ),
        rows=tuple(_tool_row(name, counts[name], keys, most) for name in sorted(counts, key=order)),
    )


def _counted(tool: dict[str, Any]) -> dict[str, int]:
    """Return skipped reviews by outcome, and the reviews that stay required as `kept`."""
    return {kind: tool["spared"][kind] for kind in _WORDS} | {"kept": sum(tool["kept"].values())}


def _tool_row(
    name: str, counts: dict[str, int], keys: tuple[tuple[str, str], ...], most: int
) -> Row:
    total, kept = sum(counts.values()), counts["kept"]
    parts = [(kind, label, counts[kind], "") for kind, label in keys]
    return Row(
        links=((name, ""),),
        parts=shares(parts, of=total, most=most),
        cells=(total, total - kept, counts["edited"], counts["rejected"], kept),
    )


def _by_rule(report: dict[str, Any]) -> tuple[Table, ...]:
    """Return skipped reviews per rule, or nothing if there is only one rule."""
    if len(report["by_rule"]) < 2:
        return ()
    kinds = ("approved", "edited", "rejected", "expired")
    return (
        Table(
            key="by-rule",
            heading=_("By rule"),
            first=_("Rule"),
            columns=(_("Skipped unchanged"), _("Edited"), _("Rejected"), _("Timed out")),
            rows=tuple(
                Row(
                    links=((name or _("condition of the task"), ""),),
                    cells=tuple(counts[kind] for kind in kinds),
                )
                for name, counts in report["by_rule"].items()
            ),
        ),
    )


def _still_reviewed(report: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the reasons why reviews stay required, with their counts."""
    words = {
        "no_rule": _("no rule matches, or its condition is false"),
        "sampled_in": _("selected by the sample rate"),
        "high_risk": _("can modify data, before execution: never skipped"),
        "always": _("required every time: never skipped"),
        "sent_back": _("sent back by a reviewer: never skipped"),
        "error": _("the rule could not be evaluated"),
    }
    return [(words[code], report["codes"][code]) for code in words if report["codes"].get(code)]


def _caveats(report: dict[str, Any], found: Headline) -> list[str]:
    """Return the limitations of the report."""
    unknown = {
        "no_plan": _(
            "%(count)s reviews count as still reviewed: the task is no longer in the plan."
        ),
        "no_inputs": _(
            "%(count)s reviews count as still reviewed: the inputs of the task were not stored."
        ),
        "no_payload": _("%(count)s reviews count as still reviewed: the payload was not stored."),
    }
    caveats = [
        words % {"count": count}
        for code, words in unknown.items()
        if (count := report["unknown"].get(code))
    ]
    if report["spared_already"]:
        caveats.append(
            _(
                "%(count)s reviews in this period were already skipped by rules. They are not"
                " part of this backtest, so the remaining reviews may not be representative of"
                " all runs."
            )
            % {"count": report["spared_already"]}
        )
    if report["is_cut"]:
        caveats.append(
            _("A backtest is limited: it evaluated the newest %(count)s reviews.")
            % {"count": grouped(found.reviews)}
        )
    if found.expired:
        caveats.append(
            _("%(count)s of the skipped reviews had timed out; nobody decided them.")
            % {"count": found.expired}
        )
    caveats.append(_("An approval without changes does not prove that the payload was correct."))
    return caveats


# --- publishing -----------------------------------------------------------------------------------


def _publish_context(
    user: User, backtest: Backtest, in_force: RuleVersion | None
) -> dict[str, Any]:
    """Return whether the rules can be published, and their changes."""
    number = in_force.number if in_force else 0
    reason = ""
    if not may_publish_rules(user):
        reason = _("Operators and admins can publish rules.")
    elif number != backtest.base_version:
        reason = _(
            "Version %(now)s was published since these rules were drafted on version %(then)s."
            " Run the backtest again."
        ) % {"now": number, "then": backtest.base_version}
    versions = RuleVersion.objects.filter(report=backtest.pk, workflow=backtest.workflow)
    return {
        "url": reverse("reviews:backtest_publish", args=(backtest.pk,)),
        "number": number + 1,
        "in_force": number,
        "reason": reason,
        "published": list(versions.order_by("number").values_list("number", flat=True)),
        "rules_url": reverse("reviews:workflow_rules", args=(backtest.workflow_id,)),
        "changes": difference(in_force.rules if in_force else [], backtest.rules),
    }


# --- versions of the rules ------------------------------------------------------------------------


_MAX_ITEMS = 200


def rules_context(user: User, workflow: Workflow) -> dict[str, Any]:
    """Return the versions of the rules, newest first, each with its changes."""
    found = list(active_rules.versions(workflow)[: _MAX_ITEMS + 1])
    older = [*found[1:], None][: len(found)]
    reads_reports = may_backtest(user)
    draft = f"{reverse('reviews:backtest')}?workflow={workflow.pk}"
    return {
        "workflow": workflow,
        "workflow_url": reverse("reviews:workflow", args=(workflow.pk,)),
        "draft_url": draft if reads_reports else "",
        "publish_url": reverse("reviews:workflow_rules", args=(workflow.pk,)),
        "may_publish": may_publish_rules(user),
        "number": found[0].number if found else 0,
        "has_rules": bool(found and found[0].rules),
        "versions": [
            {
                "number": each.number,
                "author": each.author_name,
                "at": each.created_at,
                "comment": each.comment,
                "republished": each.republished,
                "digest": each.digest,
                "is_in_force": index == 0,
                "report": each.report,
                "report_digest": each.report_digest,
                "report_url": reverse("reviews:backtest_report", args=(each.report,))
                if each.report is not None and reads_reports
                else "",
                "changes": difference(before.rules if before else [], each.rules),
            }
            for index, (each, before) in enumerate(zip(found, older, strict=True))
        ][:_MAX_ITEMS],
    }


def rules_summary(user: User, workflow: Workflow) -> dict[str, Any]:
    """Return the active rules for the page of a workflow."""
    rules = active_rules.current_rules(workflow)
    return {
        "version": rules.version,
        "changes": difference([], [rule.model_dump(mode="json") for rule in rules.rules]),
        "url": reverse("reviews:workflow_rules", args=(workflow.pk,)),
        "draft_url": f"{reverse('reviews:backtest')}?workflow={workflow.pk}"
        if may_backtest(user)
        else "",
    }


# --- sentences about rules ------------------------------------------------------------------------


_BEFORE = TriggerPhase.BEFORE_EXECUTION


def rule_sentence(rule: ReviewRule) -> str:
    """Return `small: skip the review of draft when …, but review 20% of these`."""
    what = ", ".join((*rule.tasks, *rule.tools)) or _("all tasks")
    if rule.phase is not None:
        what += " " + (_("before it runs") if rule.phase is _BEFORE else _("after it ran"))
    params = {"name": rule.name, "what": what, "when": rule.skip_when or ""}
    share = "" if rule.sample is None else percent(rule.sample)
    if rule.skip_when is None:
        return _("%(name)s: review %(share)s of %(what)s") % {
            **params,
            "share": share,
        }
    if rule.sample is None:
        return _("%(name)s: skip the review of %(what)s when %(when)s") % params
    return _(
        "%(name)s: skip the review of %(what)s when %(when)s, but review %(share)s of these"
    ) % {**params, "share": share}


def percent(share: float) -> str:
    """0.2 as `20%`, 0.875 as `87.5%`."""
    digits = f"{share * 100:.6f}".rstrip("0").partition(".")[2]
    return share_text(share, places=len(digits))


def difference(
    old: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]
) -> list[dict[str, str]]:
    """Return added, changed, unchanged and removed rules, each as a sentence."""
    before = {each["name"]: ReviewRule.model_validate(each) for each in old}
    after = {each["name"]: ReviewRule.model_validate(each) for each in new}
    rows = []
    for name, rule in after.items():
        if name not in before:
            rows.append({"kind": "added", "words": rule_sentence(rule), "was": ""})
        elif before[name] != rule:
            was = rule_sentence(before[name])
            rows.append({"kind": "changed", "words": rule_sentence(rule), "was": was})
        else:
            rows.append({"kind": "same", "words": rule_sentence(rule), "was": ""})
    removed = [rule for name, rule in before.items() if name not in after]
    return [
        *rows,
        *({"kind": "removed", "words": rule_sentence(rule), "was": ""} for rule in removed),
    ]
