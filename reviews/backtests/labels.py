"""Rules, and what they did, in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _

from reviews.components.number_formatting import percent as share_words
from workflows.engine.policy import ReviewRule, TriggerPhase

_BEFORE = TriggerPhase.BEFORE_EXECUTION


def rule_sentence(rule: ReviewRule) -> str:
    """`small: reviews of draft are skipped when … ; 20 % of them are seen all the same`."""
    what = ", ".join((*rule.tasks, *rule.tools)) or _("every task")
    if rule.phase is not None:
        what += " " + (_("before it runs") if rule.phase is _BEFORE else _("after it ran"))
    said = {"name": rule.name, "what": what, "when": rule.skip_when or ""}
    share = "" if rule.sample is None else percent(rule.sample)
    if rule.skip_when is None:
        return _("%(name)s: of the reviews of %(what)s people see %(share)s") % {
            **said,
            "share": share,
        }
    if rule.sample is None:
        return _("%(name)s: skip the review of %(what)s when %(when)s") % said
    return _(
        "%(name)s: skip the review of %(what)s when %(when)s, but show people %(share)s of these"
    ) % {**said, "share": share}


def percent(share: float) -> str:
    """0.2 as `20%`, 0.875 as `87.5%`."""
    digits = f"{share * 100:.6f}".rstrip("0").partition(".")[2]
    return share_words(share, places=len(digits))


def difference(
    old: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]
) -> list[dict[str, str]]:
    """The rules that came, went, changed and stayed, each as a sentence with what it did."""
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
    gone = [rule for name, rule in before.items() if name not in after]
    return [
        *rows,
        *({"kind": "removed", "words": rule_sentence(rule), "was": ""} for rule in gone),
    ]
