"""Requests of Teams to the bot: pressed buttons, messages of people, installations.

The caller has verified the request's token.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from django.utils.translation import gettext as _

from reviews.answer_links.services import check_rate
from reviews.chat import accounts
from reviews.chat.accounts import TeamsIdentity
from reviews.chat.deciding import (
    REFUSALS,
    BadPayload,
    bad_code,
    change_of,
    decide,
    refusal_text,
    settings_url,
    target_of,
    too_many_codes,
)
from reviews.decisions.edits import NO_CHANGE
from reviews.models import Decision, TeamsAccount, TeamsBot, TeamsMessage
from workflows.models import Hold

from . import cards, connector

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = logging.getLogger(__name__)

Answer = dict[str, Any]

#: Teams waits 15 seconds for the answer to a request.
_REPLY_SECONDS: Final = 8.0
_CODE_LENGTH: Final = 10
_MAX_ID: Final = 200
_MAX_ADDRESS: Final = 300


def handle(bot: TeamsBot, activity: dict[str, Any]) -> Answer | None:
    """Answer an activity; None if Teams expects no content. Raises BadPayload."""
    kind = activity.get("type")
    if kind == "invoke":
        if activity.get("name") != "adaptiveCard/action":
            raise BadPayload
        return _pressed(bot, _identity(bot, activity), activity)
    if kind == "message":
        identity = _identity(bot, activity)
        if identity.is_personal:
            _reply(bot, identity, _answer_to_text(bot, identity, activity.get("text")))
    elif kind == "installationUpdate" and activity.get("action") == "add":
        identity = _identity(bot, activity)
        if identity.is_personal:
            _reply(bot, identity, _hint())
    return None


def _identity(bot: TeamsBot, activity: dict[str, Any]) -> TeamsIdentity:
    """Return the sender; raises BadPayload for people of other tenants (guests, shared chats)."""
    sender, chat = activity.get("from"), activity.get("conversation")
    if not isinstance(sender, dict) or not isinstance(chat, dict):
        raise BadPayload
    data = activity.get("channelData")
    tenant = data.get("tenant") if isinstance(data, dict) else None
    named = [chat.get("tenantId"), tenant.get("id") if isinstance(tenant, dict) else None]
    if {each for each in named if each is not None} != {bot.tenant_id}:
        raise BadPayload
    user, conversation, service = sender.get("id"), chat.get("id"), activity.get("serviceUrl")
    for text, longest in ((user, _MAX_ID), (conversation, _MAX_ADDRESS), (service, _MAX_ADDRESS)):
        if not isinstance(text, str) or not 0 < len(text) <= longest or "\0" in text:
            raise BadPayload
    return TeamsIdentity(
        teams_user=str(user),
        name=str(sender.get("name") or "")[:_MAX_ID].replace("\0", ""),
        conversation=str(conversation),
        service_url=str(service),
        is_personal=chat.get("conversationType") == "personal",
    )


# --- messages -------------------------------------------------------------------------------------


def _answer_to_text(bot: TeamsBot, identity: TeamsIdentity, text: object) -> str:
    code = text.strip() if isinstance(text, str) else ""
    if len(code.replace("-", "").replace(" ", "")) != _CODE_LENGTH:
        return _hint()
    try:
        account = accounts.link_teams_by_code(bot, identity, code)
    except accounts.CodeInvalid:
        return bad_code()
    except accounts.TooManyCodes:
        return too_many_codes()
    return _linked(account.user)


def _hint() -> str:
    return _("Send me the code from your notification settings: %(url)s") % {"url": settings_url()}


def _linked(user: User) -> str:
    return _("This Teams account now decides as %(name)s in Holdpoint.") % {
        "name": user.get_username()
    }


def _reply(bot: TeamsBot, identity: TeamsIdentity, text: str) -> None:
    """Post a text into the chat; a failure only costs the person the text."""
    activity = {"type": "message", "textFormat": "plain", "text": text}
    try:
        connector.post(
            bot, identity.service_url, identity.conversation, activity, seconds=_REPLY_SECONDS
        )
    except connector.TeamsError as error:
        logger.warning("Teams bot %s: a reply was not sent: %s", bot.pk, error)


# --- buttons --------------------------------------------------------------------------------------


def _pressed(bot: TeamsBot, identity: TeamsIdentity, activity: dict[str, Any]) -> Answer:
    verb, data = _action_of(activity)
    if verb == "link":
        return _submitted_code(bot, identity, data)
    if verb not in ("approve", "reject", "edit"):
        raise BadPayload
    target = target_of(data)
    account = accounts.teams_account_of(bot, identity)
    if account is None:
        return _with_card(cards.link_form(settings_url()))
    user = account.user
    values = {name: value for name, value in data.items() if isinstance(value, str)}
    comment = values.get(cards.REASON if verb == "reject" else cards.COMMENT, "")
    decision = Decision.REJECT if verb == "reject" else Decision.APPROVE
    try:
        check_rate(user)
        change = change_of(user, target, values, _inputs) if verb == "edit" else NO_CHANGE
        decide(
            user,
            target,
            decision.value,
            source=cards.SOURCE,
            answers_here=cards.answers_in_teams,
            comment="" if verb == "approve" else comment.strip(),
            change=change,
        )
    except REFUSALS as refused:
        return _with_text(refusal_text(target, refused))
    return _decided(account, activity.get("replyToId"), target.hold_id)


def _action_of(activity: dict[str, Any]) -> tuple[object, dict[str, Any]]:
    """Return verb and data of a button; Teams adds the card's inputs to the data."""
    value = activity.get("value")
    action = value.get("action") if isinstance(value, dict) else None
    if not isinstance(action, dict):
        raise BadPayload
    data = action.get("data")
    return action.get("verb"), data if isinstance(data, dict) else {}


def _submitted_code(bot: TeamsBot, identity: TeamsIdentity, data: dict[str, Any]) -> Answer:
    """Link the account; only in the personal chat, where its messages go afterwards."""
    code = data.get(cards.CODE)
    if not isinstance(code, str) or not identity.is_personal:
        raise BadPayload
    try:
        account = accounts.link_teams_by_code(bot, identity, code)
    except accounts.CodeInvalid:
        return _with_text(bad_code())
    except accounts.TooManyCodes:
        return _with_text(too_many_codes())
    return _with_card(cards.notice(_linked(account.user), settings_url()))


def _inputs(hold: Hold) -> set[str]:
    return {field.name for field in cards.edit_fields(hold)}


def _decided(account: TeamsAccount, posted: object, hold_id: str) -> Answer:
    """Return the pressed card as it is now; other cards about the review are updated later."""
    rows = TeamsMessage.objects.filter(account=account, hold=hold_id, activity=str(posted or ""))
    message = rows.select_related("account__user", "hold__execution__workflow").first()
    card = cards.content_of(message) if message is not None and message.activity else None
    return _with_card(card) if card is not None else _with_text(_("Decided."))


def _with_card(card: cards.Card) -> Answer:
    """Return the answer that replaces the card."""
    return {"statusCode": 200, "type": "application/vnd.microsoft.card.adaptive", "value": card}


def _with_text(text: str) -> Answer:
    """Return the answer that shows a text beside the card and keeps its inputs."""
    return {"statusCode": 200, "type": "application/vnd.microsoft.activity.message", "value": text}
