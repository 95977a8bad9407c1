"""Admin of chat hooks, and of outgoing messages (read-only)."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from reviews.models import ChatHook, NoticeKind, NoticeMessage
from reviews.notifications.mail_and_chat_text import test_chat_payload
from reviews.notifications.sender import SendError, post_to
from workflows.common.secret_encryption import encrypt
from workflows.webhooks.addresses import url_problem

from .read_only import ReadOnly

#: Kinds that a chat can receive; the others concern one person.
CHAT_KINDS = (
    NoticeKind.WAITING,
    NoticeKind.REMINDER,
    NoticeKind.ESCALATED,
    NoticeKind.DECIDED,
)


class ChatHookForm(forms.ModelForm[ChatHook]):
    """The form of a chat hook; it never shows the stored address."""

    address = forms.CharField(
        label=gettext_lazy("Address"),
        required=False,
        max_length=2000,
        widget=forms.TextInput(attrs={"autocomplete": "off", "size": 80}),
        help_text=gettext_lazy(
            "The https:// URL of the incoming webhook. It is stored encrypted and not shown again;"
            " leave empty to keep it."
        ),
    )
    kinds = forms.MultipleChoiceField(
        choices=[(kind.value, kind.label) for kind in CHAT_KINDS],
        initial=[kind.value for kind in CHAT_KINDS if kind is not NoticeKind.DECIDED],
        widget=forms.CheckboxSelectMultiple,
    )

    class Meta:
        model = ChatHook
        fields = ("name", "format", "user", "workflow", "group", "kinds", "enabled")
        help_texts = {
            "user": gettext_lazy(
                "Leave empty for the chat of a team. The chat of one person gets that person's"
                " notifications and, where the installation allows it, links that decide without a"
                " sign-in: nobody else may read it."
            )
        }

    def clean_address(self) -> str:
        """Require an allowed address for a new hook."""
        address: str = self.cleaned_data["address"].strip()
        if not address and not self.instance.pk:
            raise forms.ValidationError(_("Enter the address of the chat's incoming webhook."))
        if address and (problem := url_problem(address)):
            raise forms.ValidationError(problem)
        return address

    def save(self, commit: bool = True) -> ChatHook:  # noqa: FBT001, FBT002 - Django's
        if self.cleaned_data["address"]:
            self.instance.url = encrypt(self.cleaned_data["address"])
        saved: ChatHook = super().save(commit)
        return saved


class DeletedWithMessages(admin.ModelAdmin[Any]):
    """An admin whose objects are deleted with their messages, which have read-only pages."""

    #: Names of the models that are deleted too.
    message_names: ClassVar[frozenset[str]]

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Require no permission to delete the messages one by one."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        return deleted, counts, set(needed) - self.message_names, protected


@admin.register(ChatHook)
class ChatHookAdmin(DeletedWithMessages, admin.ModelAdmin[ChatHook]):
    """Incoming webhooks of chats."""

    empty_text = gettext_lazy(
        "A chat hook posts notifications to a chat: add one with the address of an incoming "
        "webhook."
    )
    message_names = frozenset({str(NoticeMessage._meta.verbose_name)})
    form = ChatHookForm
    list_display = (
        "name", "format", "user", "workflow", "group", "enabled", "last_success_at",
        "last_failure_at", "last_error",
    )  # fmt: skip
    list_select_related = ("user", "workflow", "group")
    readonly_fields = ("last_success_at", "last_failure_at", "last_error")
    actions = ("send_test",)

    @admin.action(description=gettext_lazy("Send a test message"), permissions=["change"])
    def send_test(self, request: HttpRequest, queryset: QuerySet[ChatHook]) -> None:
        """Post to each selected chat and report the result."""
        for hook in queryset[:20]:
            try:
                post_to(hook, test_chat_payload(hook.format))
            except SendError as error:
                messages.error(request, f"{hook.name}: {error}")
            else:
                messages.success(request, _("%(name)s: test message sent.") % {"name": hook.name})


@admin.register(NoticeMessage)
class NoticeMessageAdmin(ReadOnly, admin.ModelAdmin[NoticeMessage]):
    """Outgoing messages with status, attempts and errors."""

    empty_text = gettext_lazy(
        "A message is an e-mail or chat post about a review: it appears here when somebody "
        "is notified."
    )
    list_display = (
        "id", "user", "hook", "status", "attempts", "next_at", "error", "created_at", "finished_at",
    )  # fmt: skip
    list_filter = ("status",)
    list_select_related = ("user", "hook")
    search_fields = ("user__username", "hook__name", "error")

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("user", "hook", "status", "attempts", "next_at", "error", "created_at")
