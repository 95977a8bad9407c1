"""Buttons that people press in Slack, and dialogs that they submit.

The caller has verified Slack's signature.  Each function returns the JSON of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.utils.translation import gettext as _

from reviews.answer_links.services import SignInNeeded, check_rate
from reviews.decisions import services
from reviews.decisions.conflicts import not_as_shown, shown_digest
from reviews.decisions.edits import NO_CHANGE, ReviewInvalid
from reviews.models import Decision, SlackWorkspace
from workflows.models import Hold

from . import accounts, messages, slack_api
from .deciding import (
    REFUSALS,
    SOURCE,
    BadPayload,
    Target,
    bad_code,
    change_of,
    check_unused,
    decide,
    refusal_text,
    settings_url,
    target_of,
    too_many_codes,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Answer = dict[str, Any]

#: Slack waits three seconds for the answer to a press, and opens a dialog within them.
_OPEN_SECONDS: Final = 2.0
_DIALOGS: Final = ("review", "reject", "edit")


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
            "url": settings_url()
        }
    try:
        account = accounts.link_by_code(workspace, slack_user, text.strip())
    except accounts.CodeInvalid:
        return bad_code()
    except accounts.TooManyCodes:
        return too_many_codes()
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
    target = target_of(action.get("value"))
    user = accounts.person_of(workspace, slack_user)
    if user is None:
        return messages.link_dialog(settings_url())
    try:
        check_rate(user)
        if name != "approve":
            return _dialog(user, target, name)
        decide(user, target, Decision.APPROVE.value)
    except REFUSALS as refused:
        return _refused(target, refused)
    return None


def _dialog(user: User, target: Target, name: str) -> messages.Content:
    hold = services.visible_hold(user, target.hold_id)
    if not user.is_active:
        raise services.HoldNotFound
    if hold.status != Hold.Status.OPEN or shown_digest(hold) != target.shown:
        raise not_as_shown(hold)
    check_unused(user, hold, target)
    if not messages.answers_in_slack(hold):
        raise SignInNeeded
    required = services.reason_required(hold, SOURCE)
    return messages.decision_dialog(hold, name, reason_required=required)


# --- submitted dialogs ----------------------------------------------------------------------------


def _submitted(workspace: SlackWorkspace, slack_user: str, payload: dict[str, Any]) -> Answer:
    view = payload.get("view")
    name = view.get("callback_id") if isinstance(view, dict) else None
    if not isinstance(view, dict) or name not in ("link", *_DIALOGS):
        raise BadPayload
    values = messages.posted_values(view)
    if name == "link":
        return _submitted_code(workspace, slack_user, values)
    target = target_of(view.get("private_metadata"))
    user = accounts.person_of(workspace, slack_user)
    if user is None:
        return _update(messages.link_dialog(settings_url()))
    decision = Decision.REJECT if name == "reject" else Decision.APPROVE
    comment = values.pop("comment", "").strip()
    try:
        check_rate(user)
        change = change_of(user, target, values) if name == "edit" else NO_CHANGE
        decide(user, target, decision.value, comment=comment, change=change)
    except ReviewInvalid as invalid:
        return _errors(invalid, values)
    except REFUSALS as refused:
        return _update(_refused(target, refused))
    return {"response_action": "clear"}


def _submitted_code(workspace: SlackWorkspace, slack_user: str, values: dict[str, str]) -> Answer:
    try:
        account = accounts.link_by_code(workspace, slack_user, values.get("code", ""))
    except accounts.CodeInvalid:
        return {"response_action": "errors", "errors": {"code": bad_code()}}
    except accounts.TooManyCodes:
        return {"response_action": "errors", "errors": {"code": too_many_codes()}}
    return _update(messages.notice_dialog(_linked(account.user)))


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


def _refused(target: Target, error: Exception) -> messages.Content:
    url = "" if isinstance(error, services.HoldNotFound) else target.url
    return messages.notice_dialog(refusal_text(target, error), url)


def _update(view: messages.Content) -> Answer:
    return {"response_action": "update", "view": view}


def _linked(user: User) -> str:
    return _("This Slack account now decides as %(name)s in Holdpoint.") % {
        "name": user.get_username()
    }
