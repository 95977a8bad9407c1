"""Page contexts of masked values: reveal buttons, a revealed value, the list of reveals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.audit.audit_lists import AuditListText, Entry, audit_list_context
from reviews.audit.reveals import REVEAL_DENIED, reveals
from reviews.components import labels as components_labels
from reviews.components.reasons import render_reason
from reviews.decisions.masking import Masked, Secret, mark
from reviews.models import SecretReveal
from reviews.templatetags.desk import pretty_json

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Maximum number of reveal buttons for one place.
_MAX_ITEMS = 50


def masks_context(view: Masked, place: str, *, may: bool) -> dict[str, Any] | None:
    """Return `masks` of _masks.html: words, place, url, may, refused, items (number, mark, path).

    None if nothing is masked.
    """
    count = len(view.secrets)
    if not count:
        return None
    return {
        "words": ngettext("%(count)d value is masked", "%(count)d values are masked", count)
        % {"count": count},
        "place": place,
        "url": reverse("reviews:reveal"),
        "may": may,
        "refused": render_reason(REVEAL_DENIED),
        "items_shown": tuple(_item(each) for each in view.secrets[:_MAX_ITEMS]),
        "more": max(0, count - _MAX_ITEMS),
    }


def _item(secret: Secret) -> dict[str, Any]:
    return {"number": secret.number, "mark": mark(secret.number), "path": path_words(secret)}


def path_words(secret: Secret) -> str:
    """Return the first path of a secret, and the number of its other paths."""
    first, *more = [each or _("the whole value") for each in secret.paths]
    if not more:
        return first
    return _("%(path)s and %(more)d more") % {"path": first, "more": len(more)}


def revealed_context(secret: Secret) -> dict[str, Any]:
    """Return `revealed` of _revealed.html: mark, path and text of one value."""
    text = secret.value if isinstance(secret.value, str) else pretty_json(secret.value)
    return {"mark": mark(secret.number), "path": path_words(secret), "text": text}


def reveals_context(user: User, *, cursor: str) -> dict[str, Any]:
    """Return the context of the list of revealed values; raises keyset.BadCursor."""
    text = AuditListText(
        heading=_("Revealed values"),
        lead=_(
            "Each reveal of a masked value: the person, the place and the time. These entries are"
            " kept permanently, without the values."
        ),
        nothing=_("No revealed values"),
        nothing_more=_("Passwords, tokens and keys are masked. Each reveal is listed here."),
    )
    address = reverse("reviews:reveals")
    return audit_list_context(text, reveals(user), _entry, address=address, cursor=cursor)


def _entry(shown: SecretReveal) -> Entry:
    sentence = reveal_sentence(shown)
    return Entry(sentence=sentence, subject=shown.path, at=shown.at, url=_url(shown))


def reveal_sentence(shown: SecretReveal, *, short: bool = False) -> str:
    """Return `auditor revealed password of the payload, in Release notes (run 9)`."""
    params = {"who": shown.actor, "path": shown.path, "where": _where(shown.place)}
    if short:
        return _("%(who)s revealed %(path)s of %(where)s") % params
    params["run"] = components_labels.run_title(shown.execution.title, shown.execution_id)
    return _("%(who)s revealed %(path)s of %(where)s, in %(run)s") % params


def _where(place: str) -> str:
    kind, _colon, rest = place.partition(":")
    if kind in ("hold", "execution"):
        return _("the payload")
    if kind == "task":
        task_id, _colon, side = rest.partition(":")[2].rpartition(":")
        if side == "inputs":
            return _("the inputs of %(task)s") % {"task": task_id}
        return _("the output of %(task)s") % {"task": task_id}
    return _("record %(number)s") % {"number": rest.partition(":")[0]}


def _url(shown: SecretReveal) -> str:
    if shown.hold_id:
        return reverse("reviews:decision", args=(shown.execution_id, shown.hold_id))
    return reverse("reviews:run", args=(shown.execution_id,))
