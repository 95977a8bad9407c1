"""Buttons that people press in Slack, and dialogs that they submit.

The caller has verified Slack's signature.  Each function returns the JSON of the answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.urls import reverse
from django.utils.translation import gettext as _

from reviews.answer_links.services import SignInNeeded, TooManyRequests, check_rate
from reviews.components.reasons import render_reason
from reviews.decisions import services
from reviews.decisions.conflicts import Conflict, moved_on
from reviews.decisions.edits import (
    NO_CHANGE,
    Change,
    ReviewInvalid,
    change_to,
    payload_schema,
    shown_payload,
)
from reviews.decisions.payload_forms import posted_value
from reviews.decisions.rights import NotAllowed
from reviews.models import Decision, SlackWorkspace
from reviews.notifications import notice_text
from workflows.common.schemas import FieldError
from workflows.models import Hold

from . import accounts, messages, outbox, slack_api

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Answer = dict[str, Any]

SOURCE: Final = "slack"
#: Slack waits three seconds for the answer to a press, and opens a dialog within them.
_OPEN_SECONDS: Final = 2.0
_DIALOGS: Final = ("review", "reject", "edit")


class BadPayload(Exception):
    """The request is signed, but is none that the product's messages and dialogs send."""


@dataclass(frozen=True, slots=True)
class _Target:
    """The review of a button or a dialog, and the version of its run that it was about."""

    hold_id: str
    version: int


def handle(workspace: SlackWorkspace, payload: dict[str, Any]) -> Answer:
    """Answer a press or a submitted dialog; raises BadPayload, and SlackError for a dialog."""
    slack_user = _member(workspace, payload)
    kind = payload.get("type")
    if kind == "view_submission":
        return _submitted(workspace, slack_user, payload)
    if kind == "block_actions":
        dialog = _pressed(workspace, slack_user, payload)
        if dialog is not None:
            arguments = {"trigger_id": payload.get("trigger_id"), "view": dialog}
            slack_api.call(workspace, "views.open", arguments, seconds=_OPEN_SECONDS)
    return {}


def link_command(workspace: SlackWorkspace, slack_user: str, text: str) -> str:
    """Answer `/holdpoint CODE`: link the account."""
    if not text.strip():
        return _("Enter the code from your notification settings: %(url)s") % {
            "url": _settings_url()
        }
    try:
        account = accounts.link_by_code(workspace, slack_user, text.strip())
    except accounts.CodeInvalid:
        return _bad_code()
    return _linked(account.user)


def _member(workspace: SlackWorkspace, payload: dict[str, Any]) -> str:
    """Return the Slack user; raises BadPayload for people of other workspaces (shared channels)."""
    user, team = payload.get("user"), payload.get("team")
    slack_user = user.get("id") if isinstance(user, dict) else None
    of_user = user.get("team_id") if isinstance(user, dict) else None
    team_id = of_user or (team.get("id") if isinstance(team, dict) else None)
    if not isinstance(slack_user, str) or team_id != workspace.team_id:
        raise BadPayload
    return slack_user


# --- presses --------------------------------------------------------------------------------------


def _pressed(
    workspace: SlackWorkspace, slack_user: str, payload: dict[str, Any]
) -> messages.Content | None:
    """Return the dialog that answers the press, or None if nothing is to be said."""
    actions = payload.get("actions")
    action = actions[0] if isinstance(actions, list) and actions else None
    name = action.get("action_id") if isinstance(action, dict) else None
    if not isinstance(action, dict) or name not in ("approve", *_DIALOGS):
        return None  # a link, or an input
    target = _target(action.get("value"))
    user = accounts.person_of(workspace, slack_user)
    if user is None:
        return messages.link_dialog(_settings_url())
    try:
        check_rate(user)
        if name != "approve":
            return _dialog(user, target, name)
        _decide(user, target, Decision.APPROVE.value)
    except services.HoldNotFound:
        return messages.notice_dialog(_("Your account may not see this review."))
    except SignInNeeded:
        return messages.notice_dialog(_needs_sign_in(), _url_of(target))
    except TooManyRequests as refused:
        return messages.notice_dialog(str(refused), _url_of(target))
    except NotAllowed as denied:
        return messages.notice_dialog(render_reason(denied.reason), _url_of(target))
    except Conflict as late:
        return messages.notice_dialog(_too_late(target, late), _url_of(target))
    except ReviewInvalid as invalid:
        return messages.notice_dialog(_joined(invalid.errors), _url_of(target))
    return None


def _dialog(user: User, target: _Target, name: str) -> messages.Content:
    hold = services.visible_hold(user, target.hold_id)
    if not user.is_active:
        raise services.HoldNotFound
    if hold.status != Hold.Status.OPEN or hold.execution.version != target.version:
        raise moved_on(hold)
    if not messages.answers_in_slack(hold):
        raise SignInNeeded
    required = services.reason_required(hold, SOURCE)
    return messages.decision_dialog(hold, target.version, name, reason_required=required)


# --- submitted dialogs ----------------------------------------------------------------------------


def _submitted(workspace: SlackWorkspace, slack_user: str, payload: dict[str, Any]) -> Answer:
    view = payload.get("view")
    name = view.get("callback_id") if isinstance(view, dict) else None
    if not isinstance(view, dict) or name not in ("link", *_DIALOGS):
        raise BadPayload
    values = messages.posted_values(view)
    if name == "link":
        return _submitted_code(workspace, slack_user, values)
    target = _target(view.get("private_metadata"))
    user = accounts.person_of(workspace, slack_user)
    if user is None:
        return _update(messages.link_dialog(_settings_url()))
    decision = Decision.REJECT if name == "reject" else Decision.APPROVE
    comment = values.pop("comment", "").strip()
    try:
        check_rate(user)
        change = _change(user, target, values) if name == "edit" else NO_CHANGE
        _decide(user, target, decision.value, comment=comment, change=change)
    except services.HoldNotFound:
        return _update(messages.notice_dialog(_("Your account may not see this review.")))
    except SignInNeeded:
        return _update(messages.notice_dialog(_needs_sign_in(), _url_of(target)))
    except TooManyRequests as refused:
        return _update(messages.notice_dialog(str(refused), _url_of(target)))
    except NotAllowed as denied:
        return _update(messages.notice_dialog(render_reason(denied.reason), _url_of(target)))
    except Conflict as late:
        return _update(messages.notice_dialog(_too_late(target, late), _url_of(target)))
    except ReviewInvalid as invalid:
        return _errors(invalid, values)
    return {"response_action": "clear"}


def _submitted_code(workspace: SlackWorkspace, slack_user: str, values: dict[str, str]) -> Answer:
    try:
        account = accounts.link_by_code(workspace, slack_user, values.get("code", ""))
    except accounts.CodeInvalid:
        return {"response_action": "errors", "errors": {"code": _bad_code()}}
    return _update(messages.notice_dialog(_linked(account.user)))


def _change(user: User, target: _Target, values: dict[str, str]) -> Change:
    """Return the edit of a dialog; raises ReviewInvalid with the controls' paths."""
    hold = services.visible_hold(user, target.hold_id)
    schema = payload_schema(hold)
    shown = shown_payload(hold, schema).value
    offered = {each["block_id"] for each in messages.edit_blocks(hold)}
    posted = {name: text for name, text in values.items() if name in offered}
    value = posted_value(schema, shown, posted)
    if value.errors:
        raise ReviewInvalid(value.errors)
    return change_to(hold, value.value, shown)


def _errors(invalid: ReviewInvalid, values: dict[str, str]) -> Answer:
    """Show each error at its input, or at the comment if the dialog has no such input."""
    errors: dict[str, str] = {}
    for each in invalid.errors:
        path = each.path.removeprefix("edits").removeprefix(".")
        inner = path.replace(".", "/").replace("[", "/").replace("]", "")
        pointer = f"/{inner}" if inner else ""
        names = (f"v:{pointer}", f"j:{pointer}")
        block = next((name for name in names if name in values), "comment")
        message = each.message if block != "comment" or path == "comment" else str(each)
        errors[block] = f"{errors[block]}; {message}" if block in errors else message
    return {"response_action": "errors", "errors": errors}


# --- shared ---------------------------------------------------------------------------------------


def _decide(
    user: User,
    target: _Target,
    decision: str,
    *,
    comment: str = "",
    change: Change = NO_CHANGE,
) -> None:
    """Decide as `user`; raises SignInNeeded, and what `services.decide` raises."""
    hold = services.visible_hold(user, target.hold_id)
    if hold.status == Hold.Status.OPEN and not messages.answers_in_slack(hold):
        raise SignInNeeded
    services.decide(
        services.DecisionRequest(
            hold_id=target.hold_id,
            user=user,
            decision=decision,
            version=target.version,
            source=SOURCE,
            edits=change.edits,
            set_output_null=change.set_output_null,
            comment=comment,
            undo_seconds=services.undo_seconds_for(hold),
        )
    )


def _target(text: object) -> _Target:
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    hold_id = value.get("hold") if isinstance(value, dict) else None
    version = value.get("version") if isinstance(value, dict) else None
    if not isinstance(hold_id, str) or type(version) is not int:
        raise BadPayload
    return _Target(hold_id, version)


def _too_late(target: _Target, late: Conflict) -> str:
    """Say what happened instead, and have the messages about the review updated."""
    outbox.refresh(hold_ids=[target.hold_id])
    hold = Hold.objects.select_related("execution").get(pk=target.hold_id)
    if hold.status != Hold.Status.OPEN:
        return messages.outcome(hold, with_comment=False)
    if late.code == "stale":
        return _(
            "The run has moved on since the message was sent. The message is being updated: read"
            " it and press the button again."
        )
    return render_reason(late.reason)


def _update(view: messages.Content) -> Answer:
    return {"response_action": "update", "view": view}


def _joined(errors: tuple[FieldError, ...]) -> str:
    return " ".join(str(each) for each in errors)


def _url_of(target: _Target) -> str:
    hold = Hold.objects.filter(pk=target.hold_id).first()
    return notice_text.absolute_url(notice_text.review_path(hold)) if hold else ""


def _settings_url() -> str:
    return notice_text.absolute_url(reverse("reviews:notice_preferences"))


def _needs_sign_in() -> str:
    return _("This review needs a sign-in.")


def _bad_code() -> str:
    return _("This code is not valid any more. Create a new one in your notification settings.")


def _linked(user: User) -> str:
    return _("This Slack account now decides as %(name)s in Holdpoint.") % {
        "name": user.get_username()
    }
