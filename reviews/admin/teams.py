"""Admin of bots for Microsoft Teams, of linked accounts, and of sent cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reviews.chat.teams import connector
from reviews.models import TeamsAccount, TeamsBot, TeamsMessage
from reviews.notifications.notice_text import absolute_url
from workflows import conf
from workflows.admin.read_only import ReadOnly
from workflows.common.secret_encryption import encrypt

from .notices import DeletedWithMessages

if TYPE_CHECKING:
    BotForm = forms.ModelForm[TeamsBot]
    BotBase = admin.ModelAdmin[TeamsBot]
    AccountBase = admin.ModelAdmin[TeamsAccount]
else:
    BotForm = forms.ModelForm
    BotBase = AccountBase = admin.ModelAdmin

_MESSAGES = frozenset({str(TeamsMessage._meta.verbose_name)})
_UUID: Final = r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z"


def _uuid_field(label: Any, help_text: Any) -> forms.RegexField:
    return forms.RegexField(
        label=label,
        regex=_UUID,
        help_text=help_text,
        widget=forms.TextInput(attrs={"size": 40}),
        error_messages={
            "invalid": gettext_lazy("Enter an id such as 00000000-0000-0000-0000-000000000000.")
        },
    )


class TeamsBotForm(BotForm):
    """The form of a bot; it never shows the stored secret."""

    app_id = _uuid_field(
        gettext_lazy("App ID"), gettext_lazy("“Microsoft App ID” of the Azure Bot.")
    )
    tenant_id = _uuid_field(
        gettext_lazy("Tenant ID"),
        gettext_lazy("“App Tenant ID”; people of other tenants may not answer."),
    )
    new_client_secret = forms.CharField(
        label=gettext_lazy("Client secret"),
        required=False,
        max_length=500,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "size": 60}),
        help_text=gettext_lazy(
            "From “Certificates & secrets” of the app registration. Stored encrypted and not shown"
            " again; leave empty to keep it."
        ),
    )

    class Meta:
        model = TeamsBot
        fields = ("name", "app_id", "tenant_id", "enabled")

    def clean(self) -> dict[str, Any]:
        """Require the secret for a new bot."""
        cleaned: dict[str, Any] = super().clean() or {}
        secret = (cleaned.get("new_client_secret") or "").strip()
        if not secret and not self.instance.pk:
            self.add_error("new_client_secret", _("Enter the value that Microsoft shows once."))
        return {**cleaned, "new_client_secret": secret}

    def save(self, commit: bool = True) -> TeamsBot:  # noqa: FBT001, FBT002 - Django's
        secret = self.cleaned_data["new_client_secret"]
        if secret:
            self.instance.client_secret = encrypt(secret)
        saved: TeamsBot = super().save(commit)
        return saved


@admin.register(TeamsBot)
class TeamsBotAdmin(DeletedWithMessages, BotBase):
    """Bots for Teams: the secret, and whether messages arrive."""

    empty_text = gettext_lazy(
        "A Teams bot sends reviews as cards with buttons: add one with the secret of its Azure Bot."
    )
    message_names = _MESSAGES
    form = TeamsBotForm
    list_display = (
        "name", "app_id", "enabled", "last_success_at", "last_failure_at", "last_error",
    )  # fmt: skip
    readonly_fields = ("endpoint", "last_success_at", "last_failure_at", "last_error")
    actions = ("check_connection",)

    @admin.display(description=gettext_lazy("Messaging endpoint"))
    def endpoint(self, bot: TeamsBot) -> str:
        """The address for the configuration of the Azure Bot."""
        if not bot.pk:
            return _("Shown after saving.")
        return absolute_url(reverse("reviews:teams", args=(bot.pk,)))

    @admin.action(description=gettext_lazy("Check the connection"), permissions=["change"])
    def check_connection(self, request: HttpRequest, queryset: QuerySet[TeamsBot]) -> None:
        """Ask for an access token with the bot's secret."""
        for bot in queryset[:20]:
            try:
                connector.check_secret(bot, seconds=conf.webhook_timeout_seconds())
            except connector.TeamsError as error:
                messages.error(request, f"{bot.name}: {error}")
                continue
            text = _("%(name)s: the secret is valid.") % {"name": bot.name}
            messages.success(request, text)


@admin.register(TeamsAccount)
class TeamsAccountAdmin(DeletedWithMessages, AccountBase):
    """Linked accounts: deleting one ends the link."""

    empty_text = gettext_lazy(
        "A linked account lets a person decide in Teams: people link their own in their "
        "notification settings."
    )
    message_names = _MESSAGES
    list_display = ("teams_user", "name", "bot", "user", "linked_at")
    list_select_related = ("bot", "user")
    search_fields = ("teams_user", "name", "user__username")
    fields = ("teams_user", "name", "bot", "user", "linked_at")

    def has_add_permission(self, request: HttpRequest) -> bool:
        """People link their own accounts."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A link is created and removed, never changed."""
        return False


@admin.register(TeamsMessage)
class TeamsMessageAdmin(ReadOnly):
    """Cards to Teams with status, attempts and errors."""

    empty_text = gettext_lazy(
        "A message is a review that was sent to Teams: add a bot, and its messages appear here."
    )
    execution_path = "hold__execution__in"
    list_display = (
        "id", "bot", "account", "hold", "status", "attempts", "error", "created_at", "finished_at",
    )  # fmt: skip
    list_filter = ("status", "bot")
    list_select_related = ("bot", "account", "hold")
    search_fields = ("error", "account__teams_user", "account__name")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return (
            "bot", "account", "hold", "kind", "status", "attempts", "next_at", "error",
            "created_at", "finished_at",
        )  # fmt: skip
