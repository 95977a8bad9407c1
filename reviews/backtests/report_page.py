"""The report of a backtest: what would have been spared, and what people did there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.backtests.totals import LISTED, Headline, headline
from reviews.components.number_formatting import grouped
from reviews.components.tables import Row, Table
from reviews.insights.charts import shares
from reviews.models import Backtest
from reviews.templatetags.desk import lasting_words
from workflows.engine.policy import ReviewRules
from workflows.executions.access import may_publish_rules
from workflows.models import RuleVersion
from workflows.review_rules import active_rules

from .labels import difference, percent, rule_sentence

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Parts of a bar, in the order of what matters.
_WORDS: Final = {
    "rejected": N_("spared, had been rejected"),
    "edited": N_("spared, had been edited"),
    "approved": N_("spared, had been approved as shown"),
    "expired": N_("spared, had been decided by time"),
}


def report_context(user: User, backtest: Backtest) -> dict[str, Any]:
    """The context of the page; while it is worked out, how far it is."""
    in_force = active_rules.versions(backtest.workflow).first()
    context: dict[str, Any] = {
        "b": backtest,
        "is_done": backtest.status == Backtest.Status.DONE,
        "is_failed": backtest.status == Backtest.Status.FAILED,
        "progress_url": reverse("reviews:backtest_progress", args=(backtest.pk,)),
        "rules": [rule_sentence(each) for each in _rules(backtest).rules],
        "again_url": f"{reverse('reviews:backtest')}?workflow={backtest.workflow_id}",
        "range": _range(backtest),
    }
    if context["is_done"]:
        context |= _done(backtest)
        context["publish"] = _publishing(user, backtest, in_force)
    return context


def _rules(backtest: Backtest) -> ReviewRules:
    return ReviewRules.model_validate({"rules": backtest.rules})


def _range(backtest: Backtest) -> str:
    first = backtest.since.date().isoformat() if backtest.since else ""
    last = backtest.until.date().isoformat() if backtest.until else ""
    if first and last:
        return _("reviews from %(first)s to before %(last)s") % {"first": first, "last": last}
    if first or last:
        word = _("reviews since %(day)s") if first else _("reviews before %(day)s")
        return word % {"day": first or last}
    return _("every review there is")


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
        "kept": _kept(report),
        "errors": [
            {"url": reverse("reviews:record", args=(each["record"],)), **each}
            for each in report["errors"][:10]
        ],
    }


def sentence(found: Headline) -> str:
    """What the whole report comes to."""
    if not found.reviews:
        return _("There is no review to hold these rules against yet.")
    first = ngettext(
        "These rules would have spared %(spared)s of %(count)s review.",
        "These rules would have spared %(spared)s of %(count)s reviews.",
        found.reviews,
    ) % {"spared": found.spared, "count": found.reviews}
    if not found.spared:
        return first
    if not found.missed:
        return first + " " + _("In none of them did a person change or reject anything.")
    return (
        first
        + " "
        + ngettext(
            "In %(count)s of them a person changed or rejected the work.",
            "In %(count)s of them a person changed or rejected the work.",
            found.missed,
        )
        % {"count": found.missed}
    )


def _row(each: dict[str, Any]) -> dict[str, Any]:
    return {
        **each,
        "url": reverse("reviews:record", args=(each["record"],)),
    }


def _figures(report: dict[str, Any], found: Headline) -> tuple[dict[str, str], ...]:
    share = percent(round(found.spared / found.reviews, 3)) if found.reviews else "-"
    missed = percent(round(found.missed / found.spared, 3)) if found.spared else "-"
    known = report["desk_known"]
    desk = lasting_words(report["desk_seconds"]) if known else "-"
    by_people = found.spared - found.expired
    return (
        {
            "label": _("Spared"),
            "value": share,
            "note": f"{grouped(found.spared)} / {grouped(found.reviews)}",
        },
        {
            "label": _("Where people made a difference"),
            "value": grouped(found.missed),
            "note": _("%(share)s of what is spared") % {"share": missed},
        },
        {
            "label": _("Runs would have waited less"),
            "value": lasting_words(report["waited_seconds"]) if by_people else "-",
            "note": _("from opening to deciding, all together"),
        },
        {
            "label": _("Time of people"),
            "value": desk,
            "note": _("from claim to decision; known for %(known)s of %(all)s")
            % {"known": known, "all": by_people},
        },
    )


def _by_tool(report: dict[str, Any]) -> Table:
    """What would have been spared of each tool's reviews, the most first."""
    keys = (*((kind, _(said)) for kind, said in _WORDS.items()), ("kept", _("still reviewed")))
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
            _("Spared"),
            _("of them edited"),
            _("of them rejected"),
            _("Still reviewed"),
        ),
        rows=tuple(_tool_row(name, counts[name], keys, most) for name in sorted(counts, key=order)),
    )


def _counted(tool: dict[str, Any]) -> dict[str, int]:
    """What is spared by what people did, and `kept`: what is reviewed all the same."""
    return {kind: tool["spared"][kind] for kind in _WORDS} | {"kept": sum(tool["kept"].values())}


def _tool_row(
    name: str, counts: dict[str, int], keys: tuple[tuple[str, str], ...], most: int
) -> Row:
    total, kept = sum(counts.values()), counts["kept"]
    parts = [(kind, said, counts[kind], "") for kind, said in keys]
    return Row(
        links=((name, ""),),
        parts=shares(parts, of=total, most=most),
        cells=(total, total - kept, counts["edited"], counts["rejected"], kept),
    )


def _by_rule(report: dict[str, Any]) -> tuple[Table, ...]:
    """The same by the rule that spares; nothing where there is one rule."""
    if len(report["by_rule"]) < 2:
        return ()
    kinds = ("approved", "edited", "rejected", "expired")
    return (
        Table(
            key="by-rule",
            heading=_("By rule"),
            first=_("Rule"),
            columns=(_("Spared unchanged"), _("Edited"), _("Rejected"), _("By time")),
            rows=tuple(
                Row(
                    links=((name or _("the tasks' own"), ""),),
                    cells=tuple(counts[kind] for kind in kinds),
                )
                for name, counts in report["by_rule"].items()
            ),
        ),
    )


def _kept(report: dict[str, Any]) -> list[tuple[str, int]]:
    """Why the others would still be reviewed."""
    words = {
        "no_rule": _("no rule means them, or its condition does not hold"),
        "sampled_in": _("picked for the sample"),
        "high_risk": _("beyond reading, before they run: never spared"),
        "always": _("asked for each time: never spared"),
        "sent_back": _("sent back by a reviewer: never spared"),
        "error": _("the rule could not be worked out"),
    }
    return [(words[code], report["codes"][code]) for code in words if report["codes"].get(code)]


def _caveats(report: dict[str, Any], found: Headline) -> list[str]:
    """What this report cannot say."""
    unknown = {
        "no_plan": _(
            "%(count)s reviews count as still reviewed: the task is not in the plan any more."
        ),
        "no_inputs": _(
            "%(count)s reviews count as still reviewed: what the task ran with was not kept."
        ),
        "no_payload": _("%(count)s reviews count as still reviewed: what was shown was not kept."),
    }
    told = [
        words % {"count": count}
        for code, words in unknown.items()
        if (count := report["unknown"].get(code))
    ]
    if report["spared_already"]:
        told.append(
            _(
                "%(count)s reviews of these days were spared by rules already. Nobody looked at"
                " them, so they are not in here: the history shows what rules left over, which is"
                " not what all runs are like."
            )
            % {"count": report["spared_already"]}
        )
    if report["is_cut"]:
        told.append(
            _("There are more reviews than one backtest looks at: these are the newest %(count)s.")
            % {"count": grouped(found.reviews)}
        )
    if found.expired:
        told.append(
            _("%(count)s of the spared ones had been decided by time: that says nothing of them.")
            % {"count": found.expired}
        )
    told.append(
        _("An approval without changes says that somebody let it pass, not that it was right.")
    )
    return told


# --- publishing -----------------------------------------------------------------------------------


def _publishing(user: User, backtest: Backtest, in_force: RuleVersion | None) -> dict[str, Any]:
    """Whether these rules can be put in force, and what that changes."""
    number = in_force.number if in_force else 0
    reason = ""
    if not may_publish_rules(user):
        reason = _("Operators and admins publish rules.")
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
