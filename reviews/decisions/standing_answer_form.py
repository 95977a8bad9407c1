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
from workflows.engine.bounded_json import BoundedJSONError, canonical, parse
from workflows.engine.standing_terms import (
    MAX_HOURS,
    Rule,
    StandingTerms,
    UpTo,
    is_number,
    parse_rule,
)
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
    """What was chosen in a submitted form: the kind and the limit of each argument by its name."""

    given: bool = False
    hours: int = 0
    kinds: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)

    def terms(self) -> tuple[StandingTerms | None, tuple[FieldError, ...]]:
        """Return the terms, or the errors of the fields; None without a standing answer."""
        if not self.given:
            return None, ()
        if not 0 < self.hours <= MAX_HOURS:
            return None, (FieldError("standing.seconds", "choose for how long"),)
        rules: dict[str, Rule] = {}
        errors = []
        for name, kind in self.kinds.items():
            try:
                rules[name] = _rule(kind, self.limits.get(name, ""))
            except ValueError:
                path = f"standing.arguments.{name}"
                errors.append(FieldError(path, "enter a number from 0"))
        if errors:
            return None, tuple(errors)
        return StandingTerms(seconds=self.hours * 3600, arguments=rules), ()


#: No standing answer.
NOT_GIVEN = StandingChoice()


def _rule(kind: str, limit: str) -> Rule:
    if kind != "up_to":
        return "any" if kind == "any" else "exact"
    try:
        return parse_rule({"up_to": parse(limit)})
    except BoundedJSONError as error:
        raise ValueError(limit) from error


def parse_standing_choice(posted: Mapping[str, str], payload: Any) -> StandingChoice:
    """Parse the submitted form; the fields of an argument are numbered by its place."""
    if posted.get("standing") != "yes" or not isinstance(payload, dict):
        return NOT_GIVEN
    kinds, limits = {}, {}
    for number, name in enumerate(payload):
        kind = posted.get(f"standing_kind_{number}", "exact")
        if kind in ("any", "up_to"):
            kinds[name] = kind
        limits[name] = posted.get(f"standing_limit_{number}", "").strip()
    hours = parse_natural_number(posted.get("standing_hours", "")) or 0
    return StandingChoice(given=True, hours=hours, kinds=kinds, limits=limits)


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
            "used": counted(grant.uses, "time"),
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
            words.append(
                _("%(name)s up to %(limit)s") % {"name": name, "limit": canonical(rule.up_to)}
            )
        elif rule == "any":
            words.append(_("any %(name)s") % {"name": name})
    if not words:
        return _("with exactly the approved arguments")
    return _("%(rules)s, the rest as approved") % {"rules": ", ".join(words)}
