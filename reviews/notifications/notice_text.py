"""The sentence of a notice, for the bell, e-mails and chats; it contains no payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reviews.decisions.hold_text import headline, one_line
from reviews.models import NoticeKind
from workflows import conf
from workflows.models import Hold

_MAX_LENGTH = 200

#: Labels of the kinds in the notification settings.
LABELS = {
    NoticeKind.WAITING.value: gettext_lazy("A review waits for me or my group"),
    NoticeKind.REMINDER.value: gettext_lazy("Reminder: a review still waits"),
    NoticeKind.ESCALATED.value: gettext_lazy("A review is escalated to me"),
    NoticeKind.DECIDED.value: gettext_lazy("A review of my run was decided"),
    NoticeKind.MISMATCH.value: gettext_lazy(
        "An action that I approved was run with other arguments"
    ),
    NoticeKind.CLAIM_GIVEN.value: gettext_lazy("A review was assigned to me"),
    NoticeKind.CLAIM_TAKEN.value: gettext_lazy("My claim was assigned to someone else"),
    NoticeKind.CLAIM_ENDED.value: gettext_lazy("My claim expired"),
}
#: Style class and symbol of a kind's row.
LOOKS = {
    NoticeKind.WAITING.value: ("waiting", "◔"),
    NoticeKind.REMINDER.value: ("waiting", "◷"),
    NoticeKind.ESCALATED.value: ("bad", "▲"),
    NoticeKind.DECIDED.value: ("good", "✓"),
    NoticeKind.MISMATCH.value: ("bad", "▲"),
    NoticeKind.CLAIM_GIVEN.value: ("waiting", "◔"),
    NoticeKind.CLAIM_TAKEN.value: ("quiet", "→"),
    NoticeKind.CLAIM_ENDED.value: ("quiet", "◷"),
}


def sentence(kind: str, hold: Hold, actor: str, detail: Mapping[str, Any]) -> str:
    """`Waits for you: write_file will run in “Release notes”`; `hold.execution` is loaded."""
    if detail.get("for"):
        rest = {key: value for key, value in detail.items() if key != "for"}
        params = {"name": detail["for"], "sentence": sentence(kind, hold, actor, rest)}
        return one_line(_("For %(name)s: %(sentence)s") % params, _MAX_LENGTH)
    if kind == NoticeKind.DECIDED:
        return _decided(hold, actor, detail)
    what = headline(hold.phase or hold.reason, hold.target, hold.task_id, hold.execution.title)
    template = {
        NoticeKind.WAITING: _reopened(actor)
        if detail.get("again")
        else _("Waits for you: %(what)s"),
        NoticeKind.REMINDER: _("Still waits for you: %(what)s"),
        NoticeKind.ESCALATED: _("Escalated to you: %(what)s"),
        NoticeKind.MISMATCH: _(
            "%(actor)s used your standing answer in run %(run)s and ran other arguments: %(what)s"
        )
        if detail.get("run")
        else _("%(actor)s ran it with other arguments than the approved ones: %(what)s"),
        NoticeKind.CLAIM_GIVEN: _("%(actor)s assigned this to you: %(what)s"),
        NoticeKind.CLAIM_TAKEN: _("%(actor)s assigned your claim to %(other)s: %(what)s"),
        NoticeKind.CLAIM_ENDED: _("Your claim expired: %(what)s"),
    }[NoticeKind(kind)]
    params = {
        "what": what,
        "actor": actor,
        "other": detail.get("to", ""),
        "run": detail.get("run", ""),
    }
    return one_line(template % params, _MAX_LENGTH)


def _reopened(actor: str) -> str:
    if actor == "system":
        return _("The decision could not take effect; it waits for you again: %(what)s")
    return _("%(actor)s withdrew the decision; it waits for you again: %(what)s")


def _decided(hold: Hold, actor: str, detail: Mapping[str, Any]) -> str:
    approved = detail.get("decision") == "APPROVE"
    if detail.get("by_timeout"):
        text = (
            _("%(what)s in “%(run)s” timed out and was approved")
            if approved
            else _("%(what)s in “%(run)s” timed out and was rejected")
        )
    elif approved and detail.get("edited"):
        text = _("%(actor)s approved %(what)s in “%(run)s” with changes")
    elif approved:
        text = _("%(actor)s approved %(what)s in “%(run)s”")
    else:
        text = _("%(actor)s rejected %(what)s in “%(run)s”")
    what = hold.task_id or hold.reason.replace("_", " ")
    # Masked before it is shortened: a shortened secret may no longer look like one.
    run = hold.execution.title
    return one_line(text % {"actor": actor, "what": what, "run": run}, _MAX_LENGTH)


def review_path(hold: Hold) -> str:
    """Return the permanent path of the review's page."""
    return reverse("reviews:decision", args=(hold.execution_id, hold.pk))


def absolute_url(path: str) -> str:
    """Return the path with the site's address, for links outside the product."""
    return conf.site_url().rstrip("/") + path
