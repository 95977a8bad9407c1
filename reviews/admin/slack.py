"""Admin of Slack workspaces and their channels, of linked accounts, and of sent messages."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reviews.models import SlackAccount, SlackChannel, SlackMessage, SlackWorkspace
from reviews.notifications.notice_text import absolute_url
from reviews.slack import slack_api
from workflows import conf
from workflows.admin.read_only import ReadOnly
from workflows.common.secret_encryption import encrypt

from .notices import CHAT_KINDS, DeletedWithMessages

_MESSAGES = frozenset({str(SlackMessage._meta.verbose_name)})
_SECRETS = {"new_bot_token": "bot_token", "new_signing_secret": "signing_secret"}


def _secret_field(label: Any, help_text: Any) -> forms.CharField:
    return forms.CharField(
        label=label,
        required=False,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text=help_text,
    )


class SlackWorkspaceForm(forms.ModelForm[SlackWorkspace]):
    """The form of a workspace; it never shows the stored secrets."""

    team_id = forms.RegexField(
        label=gettext_lazy("Team ID"),
        regex=r"\A[TE][A-Z0-9]{2,30}\Z",
        help_text=gettext_lazy("Begins with T; “Check the connection” names the right one."),
    )
    new_bot_token = _secret_field(
        gettext_lazy("Bot token"),
        gettext_lazy(
            "Begins with xoxb-. Stored encrypted and not shown again; leave empty to keep it."
        ),
    )
    new_signing_secret = _secret_field(
        gettext_lazy("Signing secret"),
        gettext_lazy(
            "From “Basic Information” of the Slack app. Stored encrypted and not shown again;"
            " leave empty to keep it."
        ),
    )

    class Meta:
        model = SlackWorkspace
        fields = ("name", "team_id", "enabled")

    def clean(self) -> dict[str, Any]:
        """Require both secrets for a new workspace."""
        cleaned: dict[str, Any] = super().clean() or {}
        for name in _SECRETS:
            cleaned[name] = (cleaned.get(name) or "").strip()
            if not cleaned[name] and not self.instance.pk:
                self.add_error(name, _("Enter the value that Slack shows for the app."))
        return cleaned

    def save(self, commit: bool = True) -> SlackWorkspace:  # noqa: FBT001, FBT002 - Django's
        for name, column in _SECRETS.items():
            if self.cleaned_data[name]:
                setattr(self.instance, column, encrypt(self.cleaned_data[name]))
        saved: SlackWorkspace = super().save(commit)
        return saved


class SlackChannelForm(forms.ModelForm[SlackChannel]):
    """The form of a channel."""

    channel = forms.RegexField(
        label=gettext_lazy("Channel ID"),
        regex=r"\A[CG][A-Z0-9]{2,30}\Z",
        help_text=gettext_lazy("Begins with C; at the end of the channel's details in Slack."),
    )
    kinds = forms.MultipleChoiceField(
        choices=[(kind.value, kind.label) for kind in CHAT_KINDS],
        initial=[kind.value for kind in CHAT_KINDS],
        widget=forms.CheckboxSelectMultiple,
    )
    show_payload = forms.BooleanField(
        label=gettext_lazy("Show what is under review"),
        required=False,
        help_text=gettext_lazy(
            "Everybody in the channel reads it, with secrets masked. Otherwise “Review…” shows it"
            " to people who may see the run."
        ),
    )

    class Meta:
        model = SlackChannel
        fields = ("channel", "workflow", "group", "kinds", "show_payload", "enabled")


class SlackChannelInline(admin.StackedInline[SlackChannel, SlackWorkspace]):
    """The channels of a workspace."""

    model = SlackChannel
    form = SlackChannelForm
    extra = 0


@admin.register(SlackWorkspace)
class SlackWorkspaceAdmin(DeletedWithMessages, admin.ModelAdmin[SlackWorkspace]):
    """Slack workspaces: secrets, channels, and whether messages arrive."""

    empty_text = gettext_lazy(
        "A Slack workspace gets reviews as messages with buttons: add one with the secrets "
        "of its Slack app."
    )
    message_names = _MESSAGES
    form = SlackWorkspaceForm
    inlines = (SlackChannelInline,)
    list_display = (
        "name", "team_id", "enabled", "last_success_at", "last_failure_at", "last_error",
    )  # fmt: skip
    readonly_fields = ("request_url", "last_success_at", "last_failure_at", "last_error")
    actions = ("check_connection",)

    @admin.display(description=gettext_lazy("Request URL"))
    def request_url(self, workspace: SlackWorkspace) -> str:
        """The address for interactivity and for the command in the Slack app's settings."""
        if not workspace.pk:
            return _("Shown after saving.")
        return absolute_url(reverse("reviews:slack", args=(workspace.pk,)))

    @admin.action(description=gettext_lazy("Check the connection"), permissions=["change"])
    def check_connection(self, request: HttpRequest, queryset: QuerySet[SlackWorkspace]) -> None:
        """Ask Slack whose token it is, and compare the team."""
        for workspace in queryset[:20]:
            try:
                found = slack_api.call(
                    workspace, "auth.test", {}, seconds=conf.webhook_timeout_seconds()
                )
            except slack_api.SlackError as error:
                messages.error(request, f"{workspace.name}: {error}")
                continue
            team = str(found.get("team_id", ""))
            text = _("%(name)s: the token belongs to team %(team)s.")
            report = messages.success if team == workspace.team_id else messages.error
            report(request, text % {"name": workspace.name, "team": team})


@admin.register(SlackAccount)
class SlackAccountAdmin(DeletedWithMessages, admin.ModelAdmin[SlackAccount]):
    """Linked accounts: deleting one ends the link."""

    empty_text = gettext_lazy(
        "A linked account lets a person decide in Slack: people link their own in their "
        "notification settings."
    )
    message_names = _MESSAGES
    list_display = ("slack_user", "workspace", "user", "linked_at")
    list_select_related = ("workspace", "user")
    search_fields = ("slack_user", "user__username")
    fields = ("slack_user", "workspace", "user", "linked_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """People link their own accounts."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A link is created and removed, never changed."""
        return False


@admin.register(SlackMessage)
class SlackMessageAdmin(ReadOnly):
    """Messages to Slack with status, attempts and errors."""

    empty_text = gettext_lazy(
        "A message is a review that was sent to Slack: add a workspace, and its messages "
        "appear here."
    )
    execution_path = "hold__execution__in"
    list_display = (
        "id", "workspace", "account", "channel", "hold", "status", "attempts", "error",
        "created_at", "finished_at",
    )  # fmt: skip
    list_filter = ("status", "workspace")
    list_select_related = ("workspace", "account", "channel", "hold")
    search_fields = ("error", "account__slack_user", "channel__channel")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return (
            "workspace", "account", "channel", "hold", "kind", "status", "attempts", "next_at",
            "error", "created_at", "finished_at",
        )  # fmt: skip
