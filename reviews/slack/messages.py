"""Messages and dialogs in Slack's Block Kit format.

Texts of people and agents are only in `plain_text` and `rich_text`, which Slack does not interpret,
or escaped: no payload can mention a channel or draw a button.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviews.answer_links.services import takes_links
from reviews.decisions.conflicts import shown_digest
from reviews.decisions.edit_impact import takes_edits
from reviews.decisions.edits import payload_schema, shown_payload
from reviews.decisions.external_action import external_action_context, with_locks
from reviews.decisions.hold_text import headline
from reviews.decisions.pages import decision_sentence, expired_words, hold_state, pretty
from reviews.decisions.payload_forms import payload_fields
from reviews.decisions.withdrawal import without_withdrawn
from reviews.models import HumanReviewRecord, SlackAccount, SlackMessage
from reviews.notifications import inbox, notice_text
from reviews.notifications.mail_and_chat_text import escaped
from reviews.notifications.notify import ACTIONABLE_KINDS
from reviews.queue.filters import risk_of
from reviews.templatetags.desk import visible
from workflows.common.schemas import FormField
from workflows.executions.access import can_see
from workflows.models import Hold

Content = dict[str, Any]
Blocks = list[dict[str, Any]]

#: Slack's limits: a text, a text input, a button's label, and the blocks of a dialog.
_MAX_TEXT: Final = 2900
_MAX_INPUT: Final = 3000
_MAX_LABEL: Final = 75
_MAX_TITLE: Final = 24
_MAX_BLOCK_ID: Final = 255
_MAX_FIELDS: Final = 60
#: Kinds of form fields that a dialog has an input for.
_TEXT_KINDS: Final = ("text", "textarea", "integer", "number", "json")


def receiver_id(message: SlackMessage) -> str:
    """Return Slack's id of the person or the channel that receives the message."""
    if message.account is not None:
        return message.account.slack_user
    assert message.channel is not None  # noqa: S101 - the table's constraint
    return message.channel.channel


def content_of(message: SlackMessage) -> Content | None:
    """Return text and blocks as of now, or None when there is nothing left to send.

    Nothing is sent to an account whose link has ended or about reviews that the person may no
    longer see, and no request for a review that is decided or whose notice they have read.
    """
    hold = message.hold
    asks = message.kind in ACTIONABLE_KINDS
    if message.account is not None and not _may_get(message.account, message):
        return None
    is_open = hold.status == Hold.Status.OPEN
    if asks and not is_open and not message.ts:
        return None
    sentence = notice_text.sentence(message.kind, hold, message.actor, message.detail)
    shows = message.account is not None or (
        message.channel is not None and message.channel.show_payload
    )
    blocks = [_heading(sentence, hold)]
    if asks and is_open:
        blocks += _request(hold, shows=shows)
    elif asks:
        blocks.append(_plain(outcome(hold, with_comment=shows)))
    return {"text": escaped(visible(sentence)), "blocks": blocks}


def _may_get(account: SlackAccount, message: SlackMessage) -> bool:
    """Whether the person gets the message: the link stands, and they may see the run.

    A new message about a notice that they have read is not sent.
    """
    hold, user = message.hold, account.user
    if not account.is_current or not user.is_active:
        return False
    if not can_see(user, hold.execution, hold.groups):
        return False
    return bool(message.ts) or not inbox.read_keys(user, [message.key])


def outcome(hold: Hold, *, with_comment: bool) -> str:
    """`ann approved this with 1 change`: how a closed review ended."""
    rows = HumanReviewRecord.objects.filter(hold=hold).with_keys().order_by("id")
    records = without_withdrawn(rows.select_related("withdraws"))
    state = hold_state(hold, records)
    if state == "expired":
        return _("Nobody decided in time: %(effect)s") % {"effect": expired_words(hold)}
    if state != "decided" or not records:
        return _("This review ended without a decision.")
    sentence, comment = decision_sentence(records[-1]), records[-1].comment
    return f"{sentence}: {comment}" if with_comment and comment else sentence


def answers_in_slack(hold: Hold) -> bool:
    """Whether buttons may decide the hold; others need a sign-in, as with the links of e-mails.

    Each text has to fit into a block: nobody approves what they have not seen.
    """
    if not takes_links(hold):
        return False
    texts = (*_action_texts(hold), hold.instructions, _payload_text(hold))
    return all(len(visible(each)) <= _MAX_TEXT for each in texts)


def _request(hold: Hold, *, shows: bool) -> Blocks:
    in_slack = answers_in_slack(hold)
    blocks: Blocks = []
    if shows and in_slack:
        blocks += _payload(hold)
    blocks.append(_facts(hold))
    if not in_slack:
        blocks.append(_plain(_("Sign in to Holdpoint to decide this review.")))
    buttons = list(_buttons(hold, shows=shows)) if in_slack else []
    return [*blocks, {"type": "actions", "elements": [*buttons, _open_button(hold)]}]


def _buttons(hold: Hold, *, shows: bool) -> Iterator[dict[str, Any]]:
    value = json.dumps(target(hold))
    if shows:
        yield _button("approve", _("Approve"), value, style="primary")
    else:
        yield _button("review", _("Review…"), value, style="primary")
    yield _button("reject", _("Reject…"), value, style="danger")
    if takes_edits(hold) and edit_blocks(hold):
        yield _button("edit", _("Edit…"), value)


def _button(action: str, label: str, value: str, *, style: str = "") -> dict[str, Any]:
    button = {
        "type": "button",
        "action_id": action,
        "text": _label(label),
        "value": value,
    }
    return {**button, "style": style} if style else button


def _open_button(hold: Hold) -> dict[str, Any]:
    url = notice_text.absolute_url(notice_text.review_path(hold))
    text = _label(_("Open in Holdpoint"))
    return {"type": "button", "action_id": "open", "text": text, "url": url}


# --- dialogs --------------------------------------------------------------------------------------


def target(hold: Hold) -> dict[str, Any]:
    """Return what a button or a dialog decides, see `deciding.Target`."""
    records = HumanReviewRecord.objects.filter(hold=hold).order_by("-pk")
    last = records.values_list("pk", flat=True).first() or 0
    return {"hold": hold.pk, "shown": shown_digest(hold), "after": last}


def decision_dialog(hold: Hold, action: str, *, reason_required: bool) -> Content:
    """Return the dialog that approves, rejects or edits: the payload and a comment, or inputs."""
    titles = {
        "review": (_("Review"), _("Approve")),
        "reject": (_("Reject"), _("Reject")),
        "edit": (_("Edit"), _("Approve with changes")),
    }
    title, submit = titles[action]
    blocks = [_heading(_headline(hold), hold)]
    blocks += [*_action(hold), *edit_blocks(hold)] if action == "edit" else _payload(hold)
    needs_reason = action == "reject" and reason_required
    blocks.append(_comment(_("Reason") if action == "reject" else _("Comment"), needs_reason))
    return {
        "type": "modal",
        "callback_id": action,
        "private_metadata": json.dumps(target(hold)),
        "title": _label(title, _MAX_TITLE),
        "submit": _label(submit, _MAX_TITLE),
        "close": _label(_("Cancel"), _MAX_TITLE),
        "blocks": blocks,
    }


def link_dialog(settings_url: str) -> Content:
    """Return the dialog in which a person enters the code that links their Slack account."""
    text = _(
        "Your Slack account is not linked to a Holdpoint account, or your password has changed"
        " since. Create a code in your notification settings and enter it here. You have to press"
        " the button again afterwards."
    )
    code = {"type": "plain_text_input", "action_id": "value", "max_length": 40}
    return {
        "type": "modal",
        "callback_id": "link",
        "title": _label(_("Link account"), _MAX_TITLE),
        "submit": _label(_("Link"), _MAX_TITLE),
        "close": _label(_("Cancel"), _MAX_TITLE),
        "blocks": [
            _plain(text),
            {
                "type": "actions",
                "elements": [
                    {
                        "type": "button",
                        "action_id": "open",
                        "text": _label(_("Notification settings")),
                        "url": settings_url,
                    }
                ],
            },
            {"type": "input", "block_id": "code", "label": _label(_("Code")), "element": code},
        ],
    }


def notice_dialog(text: str, url: str = "") -> Content:
    """Return a dialog that only says something, with a link to Holdpoint."""
    blocks = [_plain(text)]
    if url:
        button = {"type": "button", "action_id": "open", "text": _label(_("Open in Holdpoint"))}
        blocks.append({"type": "actions", "elements": [{**button, "url": url}]})
    return {
        "type": "modal",
        "title": _label("Holdpoint", _MAX_TITLE),
        "close": _label(_("Close"), _MAX_TITLE),
        "blocks": blocks,
    }


def _comment(label: str, required: bool) -> dict[str, Any]:  # noqa: FBT001
    return {
        "type": "input",
        "block_id": "comment",
        "optional": not required,
        "label": _label(label),
        "element": {
            "type": "plain_text_input",
            "action_id": "value",
            "multiline": True,
            "max_length": _MAX_INPUT,
        },
    }


def edit_blocks(hold: Hold) -> Blocks:
    """Return an input for each single value of the masked payload; [] for too many.

    Slack has no input for the other values, which stay as they are.
    The id of an input's block is the name of the control in the form of the decision page.
    """
    schema = payload_schema(hold)
    shown = shown_payload(hold, schema).value
    fields = with_locks(hold, payload_fields(schema, shown, original=shown))
    single = list(_leaves(fields))
    return [_input(each) for each in single] if len(single) <= _MAX_FIELDS else []


def _leaves(fields: tuple[FormField, ...]) -> Iterator[FormField]:
    for each in fields:
        if each.kind == "object":
            yield from _leaves(each.children)
        elif not each.locked and each.state == "set" and _has_input(each):
            yield each


def _has_input(field: FormField) -> bool:
    if len(field.name) > _MAX_BLOCK_ID:
        return False
    if field.kind in _TEXT_KINDS:
        return len(field.text) <= _MAX_INPUT
    if field.kind == "boolean":
        return True
    few = 0 < len(field.options) <= 100
    return field.kind == "enum" and few and all(len(o.value) <= 150 for o in field.options)


def _input(field: FormField) -> dict[str, Any]:
    return {
        "type": "input",
        "block_id": field.name,
        "optional": True,
        "label": _label(visible(field.dotted or field.label or _("Value"))),
        "element": _element(field),
    }


def _element(field: FormField) -> dict[str, Any]:
    if field.kind in _TEXT_KINDS:
        element: dict[str, Any] = {
            "type": "plain_text_input",
            "action_id": "value",
            "multiline": field.kind in ("textarea", "json"),
        }
        return {**element, "initial_value": field.text} if field.text else element
    choices = [(option.value, option.label) for option in field.options]
    if field.kind == "boolean":
        choices = [("true", _("yes")), ("false", _("no"))]
    selected = next((option.value for option in field.options if option.selected), "")
    options = [{"text": _label(visible(label)), "value": value} for value, label in choices]
    initial = [each for each in options if each["value"] == (field.text or selected)]
    element = {"type": "static_select", "action_id": "value", "options": options}
    return {**element, "initial_option": initial[0]} if initial else element


# --- parts ----------------------------------------------------------------------------------------


def _headline(hold: Hold) -> str:
    return headline(hold.phase or hold.reason, hold.target, hold.task_id, hold.execution.title)


def _heading(sentence: str, hold: Hold) -> dict[str, Any]:
    url = notice_text.absolute_url(notice_text.review_path(hold))
    text = f"*<{url}|{escaped(visible(sentence))}>*"
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _payload(hold: Hold) -> Blocks:
    blocks = _action(hold)
    if hold.instructions:
        blocks.append(_plain(hold.instructions))
    text = {"type": "text", "text": _payload_text(hold)}
    blocks.append(
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_preformatted", "elements": [text]}],
        }
    )
    return blocks


def _action(hold: Hold) -> Blocks:
    """Return what a reviewer reads about the action of an outside agent."""
    return [_plain(text) for text in _action_texts(hold)]


def _action_texts(hold: Hold) -> list[str]:
    """Return title, description, facts and context of an outside action, with secrets masked."""
    action = external_action_context(hold)
    if action is None:
        return []
    facts = [f"{fact['name']}: {fact['value']}" for fact in action["facts"]]
    if action["url"]:
        facts.append(f"{_('Link')}: {action['shown_url']}")
    texts = (action["title"], action["description"], "\n".join(facts), action["context_text"])
    return [text for text in texts if text.strip()]


def _payload_text(hold: Hold) -> str:
    """Return the masked payload as text."""
    return visible(pretty(shown_payload(hold, payload_schema(hold)).value))


def _facts(hold: Hold) -> dict[str, Any]:
    facts = fact_texts(hold)
    if hold.expires_at is not None:
        at = int(hold.expires_at.timestamp())
        time = hold.expires_at.strftime("%Y-%m-%d %H:%M UTC")
        due = f"<!date^{at}^{{date_short_pretty}} {{time}}|{time}>"
        facts.append(_("decide by %(time)s") % {"time": due})
    text = {"type": "mrkdwn", "text": " · ".join(facts)}
    return {"type": "context", "elements": [text]}


def fact_texts(hold: Hold) -> list[str]:
    """Return risk, run and votes, without the deadline."""
    risks = {"low": _("Low risk"), "medium": _("Medium risk"), "high": _("High risk")}
    facts = [risks[risk_of(hold)], _("run %(id)s") % {"id": hold.execution_id}]
    if hold.quorum > 1:
        facts.append(
            ngettext(
                "%(done)s of %(needed)s approval", "%(done)s of %(needed)s approvals", hold.quorum
            )
            % {"done": len(hold.approvals), "needed": hold.quorum}
        )
    return facts


def _plain(text: str) -> dict[str, Any]:
    shown = visible(text)[:_MAX_TEXT]
    return {"type": "section", "text": {"type": "plain_text", "text": shown, "emoji": False}}


def _label(text: str, longest: int = _MAX_LABEL) -> dict[str, Any]:
    shown = text if len(text) <= longest else text[: longest - 1] + "…"
    return {"type": "plain_text", "text": shown, "emoji": False}


def posted_values(view: Mapping[str, Any]) -> dict[str, str]:
    """Return the entered texts of a submitted dialog by the ids of their blocks."""
    state = view.get("state")
    values = state.get("values") if isinstance(state, dict) else None
    found: dict[str, str] = {}
    for block, inputs in (values if isinstance(values, dict) else {}).items():
        entered = inputs.get("value") if isinstance(inputs, dict) else None
        if isinstance(entered, dict):
            chosen = entered.get("selected_option")
            text = chosen.get("value") if isinstance(chosen, dict) else entered.get("value")
            found[str(block)] = text if isinstance(text, str) else ""
    return found
