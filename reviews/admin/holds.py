"""Reviews in the admin: the list, its actions, and the decision form as the change form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_noop as N_

from reviews.components import labels
from reviews.components.views import current_user
from reviews.decisions.edits import ReviewInvalid
from reviews.decisions.pages import FormState
from reviews.decisions.views import DecisionView
from reviews.queue import selectors
from reviews.queue.bulk import MAX_HOLDS, selected_hold
from reviews.queue.claims import candidates
from reviews.queue.filters import RISKS, risk_condition, risk_of
from reviews.queue.key_arguments import (
    Arguments,
    key_arguments,
    payload_schemas_by_target,
    task_arguments,
)
from reviews.templatetags import desk
from workflows.admin.read_only import ReadOnly, WorkflowFilter, link
from workflows.engine.policy.policies import TriggerPhase
from workflows.engine.protocol.state import HoldReason
from workflows.models import Hold

from .hold_actions import BUTTONS, TITLES, apply_action, bulk_result

_DECIDED = (Hold.Status.APPROVED, Hold.Status.REJECTED, Hold.Status.RETURNED)
NO_PERMISSION = N_("Your account can read reviews in the admin but not decide them.")
NOTHING = "\N{EN DASH}"


class StateFilter(admin.SimpleListFilter):
    """Which reviews are listed; pending ones unless something else is chosen."""

    title = gettext_lazy("state")
    parameter_name = "state"
    states = {
        "": (gettext_lazy("Pending"), Q(status=Hold.Status.OPEN, decider="human")),
        "decided": (gettext_lazy("Decided"), Q(status__in=_DECIDED, decider="human")),
        "closed": (gettext_lazy("Closed with the run"), Q(status=Hold.Status.CLOSED)),
        "agent": (gettext_lazy("Decided by an agent"), Q(decider="agent")),
        "all": (gettext_lazy("All"), Q()),
    }

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [(key, str(label)) for key, (label, _) in self.states.items()]

    def choices(self, changelist: ChangeList) -> Any:
        """Offer the states only: Django would put "All" first."""
        for key, label in self.lookup_choices:
            yield {
                "selected": (self.value() or "") == key,
                "query_string": changelist.get_query_string(
                    {self.parameter_name: key} if key else {},
                    remove=None if key else [self.parameter_name],
                ),
                "display": label,
            }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        _, condition = self.states.get(self.value() or "", self.states[""])
        return queryset.filter(condition)


class DueFilter(admin.SimpleListFilter):
    """By deadline."""

    title = gettext_lazy("deadline")
    parameter_name = "due"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [
            ("overdue", _("Overdue")),
            ("hour", _("Within an hour")),
            ("day", _("Within a day")),
            ("none", _("No deadline")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        now = timezone.now()
        match self.value():
            case "overdue":
                return queryset.filter(expires_at__lte=now)
            case "hour":
                return queryset.filter(expires_at__lte=now + timedelta(hours=1))
            case "day":
                return queryset.filter(expires_at__lte=now + timedelta(days=1))
            case "none":
                return queryset.filter(expires_at=None)
        return queryset


class RiskFilter(admin.SimpleListFilter):
    """By risk, as in the queue."""

    title = gettext_lazy("risk")
    parameter_name = "risk"
    labels = {"high": N_("High"), "medium": N_("Medium"), "low": N_("Low")}

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [(each, _(self.labels[each])) for each in RISKS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset.filter(risk_condition(value)) if value in RISKS else queryset


class EscalatedFilter(admin.SimpleListFilter):
    """Reviews whose time without a decision brought in more groups."""

    title = gettext_lazy("escalation")
    parameter_name = "escalated"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [("yes", _("Escalated"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(escalated__gt=0) if self.value() == "yes" else queryset


class PhaseFilter(admin.SimpleListFilter):
    """Before or after the task runs."""

    title = gettext_lazy("phase")
    parameter_name = "phase"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [
            (TriggerPhase.BEFORE_EXECUTION.value, _("Before it runs")),
            (TriggerPhase.AFTER_EXECUTION.value, _("After it ran")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(phase=self.value()) if self.value() else queryset


class ReasonFilter(admin.SimpleListFilter):
    """Why the run stopped."""

    title = gettext_lazy("reason")
    parameter_name = "reason"
    labels = {
        HoldReason.NODE_REVIEW: N_("Task review"),
        HoldReason.LAYER_APPROVAL: N_("Layer approval"),
        HoldReason.LAYER_VALIDATION: N_("Layer validation"),
        HoldReason.ESCALATION: N_("Permission request"),
        HoldReason.REPLAN_REVIEW: N_("Plan change"),
    }

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Any]
    ) -> Iterable[tuple[str, str]]:
        return [(reason.value, _(label)) for reason, label in self.labels.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(reason=self.value()) if self.value() else queryset


class HoldList(ChangeList):
    """One page of reviews, each with the key arguments that the queue shows."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        rows = list(self.result_list)
        for hold, text in zip(rows, argument_texts(rows), strict=True):
            hold.argument_text = text
        self.result_list = rows


def argument_texts(holds: Sequence[Hold]) -> list[str]:
    """Return the key arguments of each hold as one text: `path: a.txt · amount: 5`.

    A layer or plan change has those of each task: `write: write_file (path: a.txt); …`.
    """
    schemas = payload_schemas_by_target(holds)
    return [desk.visible(_argument_text(hold, schemas)) for hold in holds]


def _argument_text(hold: Hold, schemas: Mapping[tuple[str, str], Any]) -> str:
    tasks = task_arguments(hold, schemas)
    if tasks:
        return "; ".join(
            f"{task.title} ({_joined(task.arguments)})" if task.arguments else task.title
            for task in tasks
        )
    return _joined(key_arguments(hold, schemas.get((hold.target, hold.phase))))


def _joined(arguments: Arguments) -> str:
    return " · ".join(f"{name}: {text}" if name else text for name, text in arguments)


class AdminDecision(DecisionView):
    """The decision form inside the admin; the desk's checks, templates and services."""

    model_admin: Any = None

    def context(self, request: HttpRequest, hold: Hold, form: FormState | None) -> dict[str, Any]:
        """Let the form post to this page, and stay in the admin afterwards."""
        d = super().context(request, hold, form)
        if not self.model_admin.has_decide_permission(request):
            d |= {"can_decide": False, "can_reject": False}
            d["blocked_reason"] = d["blocked_reason"] or _(NO_PERMISSION)
        user = current_user(request)
        following = selectors.next_review(user, hold)
        if user.has_perm("workflows.view_execution"):
            d["run_url"] = reverse("admin:workflows_execution_change", args=(hold.execution_id,))
        return {
            **d,
            "url": _url(hold),
            "in_admin": True,
            "queue_url": reverse("admin:workflows_hold_changelist"),
            "next_review_url": _url(following) if d["next_review_url"] and following else "",
        }

    def page(
        self, request: HttpRequest, hold: Hold, d: dict[str, Any], status: int
    ) -> HttpResponse:
        context = {
            **self.model_admin.admin_site.each_context(request),
            "d": d,
            "title": labels.row_sentence(hold),
            "original": labels.row_sentence(hold),
            "opts": Hold._meta,
            "desk_url": reverse("reviews:decision", args=(hold.execution_id, hold.pk)),
        }
        return TemplateResponse(
            request, "admin/workflows/hold/change_form.html", context, status=status
        )


def _url(hold: Hold) -> str:
    return reverse("admin:workflows_hold_change", args=(quote(hold.pk),))


@admin.register(Hold)
class HoldAdmin(ReadOnly):
    """Pending and decided reviews.

    Who may open the pages needs the permission to view reviews; who decides, the permission
    `decide_hold` and every right that REST and the desk ask for.
    """

    empty_text = gettext_lazy(
        "A review waits for a person's decision: it appears here when a run reaches a task "
        "that its policy holds."
    )
    actions = ("approve", "reject", "request_changes", "claim", "assign", "extend")
    date_hierarchy = "opened_at"
    list_display = (
        "sentence", "arguments", "run", "layer_number", "requester", "risk", "age", "due",
        "claimed", "outcome",
    )  # fmt: skip
    list_filter = (
        StateFilter, RiskFilter, DueFilter, EscalatedFilter, PhaseFilter, ReasonFilter,
        ("execution__workflow", WorkflowFilter),
    )  # fmt: skip
    linked_lookups = ("execution__id",)
    list_select_related = ("execution__workflow", "execution__created_by", "claim__user")
    search_fields = (
        "=id", "task_id", "target", "execution__title", "execution__created_by__username",
        "decided_by",
    )  # fmt: skip
    search_help_text = gettext_lazy("Search by task, tool, run, requester or number")
    ordering = ("opened_at", "id")

    def has_decide_permission(self, request: HttpRequest) -> bool:
        """Asked by the actions and the decision form, besides the rights on each review."""
        return request.user.has_perm("workflows.decide_hold")

    def get_urls(self) -> list[Any]:
        """Add the address to which an action's page posts."""
        bulk = path(
            "actions/", self.admin_site.admin_view(self.bulk_view), name="workflows_hold_bulk"
        )
        return [bulk, *super().get_urls()]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        pending = not request.GET.get(StateFilter.parameter_name)
        title = _("Pending reviews") if pending else _("Reviews")
        return super().changelist_view(request, {**(extra_context or {}), "heading": title})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show and decide a review."""
        hold = cast("Hold | None", self.get_object(request, unquote(object_id)))
        if hold is None or not self.has_view_permission(request, hold):
            return super().change_view(request, object_id, form_url, extra_context)
        if request.method == "POST" and not self.has_decide_permission(request):
            raise PermissionDenied(_(NO_PERMISSION))
        view = AdminDecision.as_view(model_admin=self)
        return cast("HttpResponse", view(request, hold.execution_id, hold.pk))

    # --- actions ----------------------------------------------------------------------------------

    @admin.action(description=gettext_lazy("Approve…"), permissions=["decide"])
    def approve(self, request: HttpRequest, queryset: QuerySet[Hold]) -> HttpResponse | None:
        return self._ask(request, queryset, "approve")

    @admin.action(description=gettext_lazy("Reject…"), permissions=["decide"])
    def reject(self, request: HttpRequest, queryset: QuerySet[Hold]) -> HttpResponse | None:
        return self._ask(request, queryset, "reject")

    @admin.action(description=gettext_lazy("Request changes…"), permissions=["decide"])
    def request_changes(
        self, request: HttpRequest, queryset: QuerySet[Hold]
    ) -> HttpResponse | None:
        return self._ask(request, queryset, "request_changes")

    @admin.action(description=gettext_lazy("Claim…"), permissions=["decide"])
    def claim(self, request: HttpRequest, queryset: QuerySet[Hold]) -> HttpResponse | None:
        return self._ask(request, queryset, "claim")

    @admin.action(description=gettext_lazy("Assign…"), permissions=["decide"])
    def assign(self, request: HttpRequest, queryset: QuerySet[Hold]) -> HttpResponse | None:
        return self._ask(request, queryset, "assign")

    @admin.action(description=gettext_lazy("Extend the deadline…"), permissions=["decide"])
    def extend(self, request: HttpRequest, queryset: QuerySet[Hold]) -> HttpResponse | None:
        return self._ask(request, queryset, "extend")

    def _ask(
        self, request: HttpRequest, queryset: QuerySet[Hold], action: str
    ) -> HttpResponse | None:
        """Show the selected reviews at their present versions, and ask what the action needs."""
        holds = list(queryset.select_related("execution")[: MAX_HOLDS + 1])
        if len(holds) > MAX_HOLDS:
            text = _("Select at most %(n)s reviews.") % {"n": MAX_HOLDS}
            self.message_user(request, text, messages.ERROR)
            return None
        return self._action_page(request, action, holds)

    def _action_page(
        self, request: HttpRequest, action: str, holds: Sequence[Hold], *, error: str = ""
    ) -> HttpResponse:
        names = {name for hold in holds for name in candidates(hold)} if action == "assign" else ()
        context = {
            **self.admin_site.each_context(request),
            "title": _(TITLES[action]),
            "opts": Hold._meta,
            "action": action,
            "button": _(BUTTONS[action]),
            "people": sorted(names),
            "error": error,
            "comment": request.POST.get("comment", ""),
            "changelist_url": reverse("admin:workflows_hold_changelist"),
            "rows": [
                {
                    "value": f"{hold.pk}@{hold.execution.version}",
                    "sentence": labels.row_sentence(hold),
                    "url": _url(hold),
                    "arguments": arguments,
                    "high": action == "approve" and risk_of(hold) == "high",
                }
                for hold, arguments in zip(holds, argument_texts(holds), strict=True)
            ],
        }
        status = 422 if error else 200
        return TemplateResponse(request, "admin/workflows/hold/action.html", context, status=status)

    def bulk_view(self, request: HttpRequest) -> HttpResponse:
        """Apply an action to the reviews of its page, each at the version that was shown."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not (self.has_view_permission(request) and self.has_decide_permission(request)):
            raise PermissionDenied(_(NO_PERMISSION))
        action = request.POST.get("action", "")
        if action not in TITLES:
            raise Http404
        chosen = [selected_hold(text) for text in request.POST.getlist("hold")]
        try:
            outcomes = apply_action(request, action, chosen)
        except ReviewInvalid as invalid:
            rows = self.get_queryset(request).filter(pk__in=[each.hold_id for each in chosen])
            holds = list(rows.select_related("execution")[:MAX_HOLDS])
            first = invalid.errors[0]
            return self._action_page(request, action, holds, error=f"{first.path}: {first.message}")
        result = bulk_result(current_user(request), outcomes)
        for done, text in result:
            self.message_user(request, text, messages.SUCCESS if done else messages.WARNING)
        return HttpResponseRedirect(reverse("admin:workflows_hold_changelist"))

    def get_list_display(self, request: HttpRequest) -> Any:
        """Leave the decision out where no review has one."""
        columns = super().get_list_display(request)
        pending = not request.GET.get(StateFilter.parameter_name)
        return [each for each in columns if each != "outcome" or not pending]

    # --- columns ----------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return HoldList

    @admin.display(description=gettext_lazy("review"), ordering="task_id")
    def sentence(self, hold: Hold) -> str:
        return labels.row_sentence(hold)

    @admin.display(description=gettext_lazy("key arguments"))
    def arguments(self, hold: Hold) -> str:
        return getattr(hold, "argument_text", "") or NOTHING

    @admin.display(description=gettext_lazy("run"), ordering="execution_id")
    def run(self, hold: Hold) -> SafeString | str:
        title = labels.run_title(hold.execution.title, hold.execution_id)
        return link(title, "admin:workflows_execution_change", hold.execution_id)

    @admin.display(description=gettext_lazy("layer"), ordering="layer")
    def layer_number(self, hold: Hold) -> str:
        return f"{hold.layer + 1}/{hold.execution.total_layers}"

    @admin.display(description=gettext_lazy("requester"))
    def requester(self, hold: Hold) -> str:
        by = hold.execution.created_by
        return by.get_username() if by else NOTHING

    @admin.display(description=gettext_lazy("risk"))
    def risk(self, hold: Hold) -> SafeString:
        level, why = labels.risk(hold)
        word = _(RiskFilter.labels[level])
        return format_html('<span class="risk risk-{}" title="{}">{}</span>', level, why, word)

    @admin.display(description=gettext_lazy("age"), ordering="opened_at")
    def age(self, hold: Hold) -> SafeString | str:
        return desk.ago(hold.opened_at)

    @admin.display(description=gettext_lazy("due"), ordering="expires_at")
    def due(self, hold: Hold) -> SafeString | str:
        if hold.expires_at is None or hold.status != Hold.Status.OPEN:
            return NOTHING
        return desk.left(hold.expires_at)

    @admin.display(description=gettext_lazy("claimed by"))
    def claimed(self, hold: Hold) -> str:
        return labels.claimed_by(hold) or NOTHING

    @admin.display(description=gettext_lazy("decision"), ordering="decided_at")
    def outcome(self, hold: Hold) -> SafeString | str:
        if hold.status == Hold.Status.OPEN:
            return NOTHING
        return desk.status_chip(hold.decision or hold.status)
