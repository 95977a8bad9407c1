"""Standing answers on pages: the form at an approval, and the words about a given one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop as N_
from django.utils.translation import ngettext

from reviews.components.number_formatting import counted
from workflows.approvals.standing_answers import offer_of
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError
from workflows.engine.policy.standing_terms import (
    MAX_HOURS,
    MAX_USES,
    USES,
    Rule,
    StandingTerms,
    UpTo,
    is_number,
    parse_rule,
)
from workflows.engine.values.bounded_json import BoundedJSONError, canonical, parse
from workflows.models import Grant, Hold
from workflows.permissions.grants import is_in_force

#: Offered lengths in hours; the policy's limit is offered too.
_HOURS: Final = (1, 8, 24, 168, 720)
_KINDS: Final = {
    "exact": N_("exactly as approved"),
    "any": N_("any value"),
    "up_to": N_("a number up to"),
}


@dataclass(frozen=True, slots=True)
class StandingChoice:
    """What was chosen in a submitted form: kind, limit and sum of each argument by its name."""

    given: bool = False
    hours: int = 0
    uses: str = str(USES)
    kinds: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    sums: Mapping[str, str] = field(default_factory=dict)

    def terms(self) -> tuple[StandingTerms | None, tuple[FieldError, ...]]:
        """Return the terms, or the errors of the fields; None without a standing answer."""
        if not self.given:
            return None, ()
        if not 0 < self.hours <= MAX_HOURS:
            return None, (FieldError("standing.seconds", "choose for how long"),)
        rules: dict[str, Rule] = {}
        errors = []
        uses = parse_natural_number(self.uses) or 0
        if not 0 < uses <= MAX_USES:
            errors.append(FieldError("standing.max_uses", f"enter a number from 1 to {MAX_USES}"))
        for name, kind in self.kinds.items():
            try:
                rules[name] = _rule(kind, self.limits.get(name, ""), self.sums.get(name, ""))
            except ValueError:
                path = f"standing.arguments.{name}"
                errors.append(FieldError(path, "enter a number from 0"))
        if errors:
            return None, tuple(errors)
        terms = StandingTerms(seconds=self.hours * 3600, max_uses=uses, arguments=rules)
        return terms, ()


#: No standing answer.
NOT_GIVEN = StandingChoice()


def _rule(kind: str, limit: str, in_all: str) -> Rule:
    if kind != "up_to":
        return "any" if kind == "any" else "exact"
    try:
        total = {"in_all": parse(in_all)} if in_all else {}
        return parse_rule({"up_to": parse(limit), **total})
    except BoundedJSONError as error:
        raise ValueError(limit) from error


def parse_standing_choice(posted: Mapping[str, str], payload: Any) -> StandingChoice:
    """Parse the submitted form; the fields of an argument are numbered by its place."""
    if posted.get("standing") != "yes" or not isinstance(payload, dict):
        return NOT_GIVEN
    kinds, limits, sums = {}, {}, {}
    for number, name in enumerate(payload):
        kind = posted.get(f"standing_kind_{number}", "exact")
        if kind in ("any", "up_to"):
            kinds[name] = kind
        limits[name] = posted.get(f"standing_limit_{number}", "").strip()
        sums[name] = posted.get(f"standing_sum_{number}", "").strip()
    uses = posted.get("standing_uses", str(USES)).strip()
    hours = parse_natural_number(posted.get("standing_hours", "")) or 0
    return StandingChoice(given=True, hours=hours, uses=uses, kinds=kinds, limits=limits, sums=sums)


def standing_context(
    hold: Hold, choice: StandingChoice, errors: tuple[FieldError, ...]
) -> dict[str, Any] | None:
    """Return `d.standing_answer` of the templates; None where the policy allows none.

    `hold` has its payload as people see it.  A decided hold has the answer that was given.
    """
    if not hold.stated_risk:
        # Only external actions have one.
        return None
    if hold.status != Hold.Status.OPEN:
        return _given(hold)
    offer = offer_of(hold)
    if offer.refusal is not None or not isinstance(hold.payload, dict):
        return None
    agent = hold.execution.approval.agent
    messages = {each.path: each.message for each in errors}
    return {
        "title": _("Also approve similar actions of %(agent)s") % {"agent": _agent(agent)},
        "given": choice.given,
        "times": tuple(_times(offer.max_hours, choice.hours)),
        "uses": choice.uses,
        "max_uses": MAX_USES,
        "uses_error": messages.get("standing.max_uses", ""),
        "arguments": tuple(
            _argument(number, name, value, choice, messages)
            for number, (name, value) in enumerate(hold.payload.items())
        ),
        "error": messages.get("standing") or messages.get("standing.seconds", ""),
        "grants_url": reverse("reviews:grants"),
    }


def _agent(name: str) -> str:
    return f"“{name}”" if name else _("this agent")


def _times(max_hours: int, chosen: int) -> list[dict[str, Any]]:
    lengths = [each for each in _HOURS if each < max_hours] + [max_hours]
    selected = chosen if chosen in lengths else min(8, max_hours)
    shortest = selected if selected in lengths else lengths[0]
    return [
        {
            "hours": each,
            "words": hours_text(each),
            "approve": _("Approve and allow for %(time)s") % {"time": hours_text(each)},
            "chosen": each == shortest,
        }
        for each in lengths
    ]


def hours_text(hours: int) -> str:
    """`8 hours`, `7 days`."""
    if hours % 24 == 0:
        days = hours // 24
        return ngettext("%(n)s day", "%(n)s days", days) % {"n": days}
    return ngettext("%(n)s hour", "%(n)s hours", hours) % {"n": hours}


def _argument(
    number: int, name: str, value: Any, choice: StandingChoice, messages: Mapping[str, str]
) -> dict[str, Any]:
    kind = choice.kinds.get(name, "exact")
    takes_limit = is_number(value)
    kinds = [each for each in _KINDS if each != "up_to" or takes_limit]
    return {
        "number": number,
        "name": name,
        "kinds": tuple(
            {"value": each, "label": _(_KINDS[each]), "chosen": each == kind} for each in kinds
        ),
        "takes_limit": takes_limit,
        "limit": choice.limits.get(name) or (value if takes_limit else ""),
        "sum": choice.sums.get(name, ""),
        "error": messages.get(f"standing.arguments.{name}", ""),
    }


# --- given ones -----------------------------------------------------------------------------------


def _given(hold: Hold) -> dict[str, Any] | None:
    grant = Grant.objects.filter(hold=hold, scope=Grant.Scope.STANDING).first()
    if grant is None:
        return None
    return {
        "grant": {
            "words": arguments_words(grant),
            "used": _("%(uses)s of at most %(max)s")
            % {"uses": counted(grant.uses, "time"), "max": grant.max_uses or USES},
            "in_force": is_in_force(grant),
            "revoked_by": grant.revoked_by,
            "revoked_at": grant.revoked_at,
        },
        "grants_url": reverse("reviews:grants"),
    }


def standing_sentence(grant: Grant) -> str:
    """`Approve payments.transfer: amount up to 500, any memo, the rest as approved.`"""
    params = {"action": grant.resource, "arguments": arguments_words(grant)}
    return _("Approve %(action)s: %(arguments)s.") % params


def arguments_words(grant: Grant) -> str:
    """Return which arguments may differ; values are on the page of the decision, masked."""
    words = []
    for name, stored in (grant.arguments or {}).items():
        rule = parse_rule(stored)
        if isinstance(rule, UpTo):
            params = {"name": name, "limit": canonical(rule.up_to)}
            text = _("%(name)s up to %(limit)s") % params
            if rule.in_all is not None:
                text = _("%(rule)s and %(total)s in all") % {
                    "rule": text,
                    "total": canonical(rule.in_all),
                }
            words.append(text)
        elif rule == "any":
            words.append(_("any %(name)s") % {"name": name})
    if not words:
        return _("with exactly the approved arguments")
    return _("%(rules)s, the rest as approved") % {"rules": ", ".join(words)}
