"""Views of the decision page, usable with and without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import View

from reviews.components.number_formatting import at_least
from reviews.components.reasons import render_reason
from reviews.components.value_view import value_view
from reviews.components.views import (
    SeeOther,
    back_to_review,
    current_user,
    fragment,
    hold_or_404,
    is_htmx,
    page,
)
from reviews.decisions import services, withdrawal
from reviews.decisions.conflicts import Conflict, shown_digest
from reviews.decisions.edit_impact import impact_context, path_of
from reviews.decisions.edits import (
    NO_CHANGE,
    Change,
    ReviewInvalid,
    change_to,
    payload_schema,
    shown_payload,
)
from reviews.decisions.pages import (
    MAX_SHOWN_CHARACTERS,
    FormState,
    as_shown,
    decision_context,
    pretty,
    status_context,
    verdict_context,
)
from reviews.decisions.payload_forms import posted_json, posted_value
from reviews.decisions.permission_requests import GrantChoice, parse_grant_choice
from reviews.decisions.plan_review import is_plan_review, parse_kept_tasks
from reviews.decisions.rights import NotAllowed
from reviews.decisions.similar_decisions import similar_decisions_context
from reviews.decisions.standing_answer_form import (
    NOT_GIVEN,
    StandingChoice,
    parse_standing_choice,
)
from reviews.models import ANSWERS, Decision
from reviews.notifications import inbox
from reviews.queue.pages import queue_changes
from reviews.queue.selectors import waiting_count
from workflows.common import keyset
from workflows.common.number_parsing import parse_natural_number
from workflows.common.schemas import FieldError, FormValue, undeclared_keys
from workflows.executions.access import cache_groups
from workflows.models import Hold
from workflows.permissions import step_up

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Header of the answer to a request that decided a review: only then the queue goes on to the next.
DECIDED = "X-Holdpoint-Decided"
#: Changed places that one request may ask about.
_MAX_PATHS = 200


@login_required
@require_safe
def decision_status(request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
    """The banner, the layers and the count of the rail: requested when the run moves on."""
    user = current_user(request)
    d = status_context(user, hold_or_404(request, execution_id, hold_id))
    count = at_least(waiting_count(user))
    return fragment(request, "reviews/decisions/_news.html", {"d": d, "waiting_count": count})


@login_required
@require_safe
def similar_decisions(request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
    """Return similar decisions; the page requests them after it has loaded."""
    hold = hold_or_404(request, execution_id, hold_id)
    context = similar_decisions_context(current_user(request), hold)
    return fragment(request, "reviews/decisions/_similar_decisions.html", context)


@login_required
@require_POST
def withdraw(request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
    """Withdraw the user's decision; redirects to the review, htmx receives a fragment."""
    hold = hold_or_404(request, execution_id, hold_id)
    error, status = "", 200
    try:
        withdrawal.withdraw(hold_id=hold.id, user=current_user(request), source="web")
    except NotAllowed as denied:
        error, status = render_reason(denied.reason), 403
    except Conflict as late:
        error, status = render_reason(late.reason), 409
    if is_htmx(request):
        now = hold_or_404(request, execution_id, hold_id)
        d = {**decision_context(current_user(request), now), "undo_error": error}
        return fragment(request, "reviews/decisions/_decision.html", {"d": d}, status=status)
    if status == 403:
        raise PermissionDenied(error)
    if error:
        messages.error(request, error)
    return back_to_review(request, hold)


@login_required
@require_safe
def impact(request: HttpRequest, execution_id: int, hold_id: str) -> JsonResponse:
    """Return the impact of editing these JSON pointers (`path`); requested while the user types."""
    hold = hold_or_404(request, execution_id, hold_id)
    paths = [path_of(each, hold.payload) for each in request.GET.getlist("path")[:_MAX_PATHS]]
    answer = JsonResponse(impact_context(hold, paths))
    answer["Cache-Control"] = "no-store"
    return answer


@login_required
@require_POST
def preview(request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
    """Render the posted JSON text (`value`) of this payload: Markdown, tables, parts."""
    hold = hold_or_404(request, execution_id, hold_id)
    posted = posted_json(request.POST.get("value", ""))
    view = None if posted.errors else value_view(posted.value, payload_schema(hold))
    context = {"view": view, "errors": posted.errors}
    return fragment(request, "reviews/decisions/_preview.html", context)


class DecisionView(LoginRequiredMixin, View):
    """One review: shown by GET, decided by POST. The admin shows it in a page of its own."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
        hold = hold_or_404(request, execution_id, hold_id)
        inbox.mark_hold_read(current_user(request), hold)
        return self._show(request, hold)

    def post(self, request: HttpRequest, execution_id: int, hold_id: str) -> HttpResponse:
        """Decide and redirect; otherwise show the page again with the entered text."""
        hold = hold_or_404(request, execution_id, hold_id)
        posted = _Posted(request, hold)
        if posted.asks_for_more or posted.compares:
            return self._show(request, hold, posted.form_state())
        if posted.errors:
            return self._show(request, hold, posted.form_state(posted.errors), status=422)
        if posted.needs_confirmation:
            is_open = hold.status == Hold.Status.OPEN
            form = posted.form_state(confirm=is_open)
            return self._show(request, hold, form, status=200 if is_open else 409)
        if posted.is_stale:
            return self._show(request, hold, posted.form_state(stale=True), status=409)
        try:
            services.decide(posted.decision_request())
        except ReviewInvalid as invalid:
            return self._show(request, hold, posted.form_state(_unprefixed(invalid)), status=422)
        except NotAllowed as denied:
            refused = denied.code == "step_up"
            return self._show(
                request, hold, posted.form_state(), status=403, step_up_refused=refused
            )
        except Conflict:
            now = hold_or_404(request, execution_id, hold_id)
            stale = now.status == Hold.Status.OPEN
            return self._show(request, now, posted.form_state(stale=stale), status=409)
        except services.HoldNotFound:
            raise Http404 from None
        if not is_htmx(request):
            return SeeOther(request.path)
        answer = self._following(request, hold) or self.get(request, execution_id, hold_id)
        answer[DECIDED] = hold.id
        return answer

    def _following(self, request: HttpRequest, decided: Hold) -> HttpResponse | None:
        """Return the review that the queue opens next, with the rows and counts that changed.

        The queue names it, so that a decision takes one request.  None if it names none, or one
        that is no longer open: then it loads what is left by itself.
        """
        if "queue_next" not in request.POST:
            return None
        # The decision is made: the rest of the request only reads.
        user = cast("User", cache_groups(current_user(request)))
        try:
            following = request.POST["queue_next"].replace("\0", "")
            hold, now = services.visible_holds(user, following, decided.id)
            verdict = verdict_context(user, now)
            rows = queue_changes(
                user,
                QueryDict(request.POST.get("queue_query", "")),
                run=decided.execution_id,
                until=request.POST.get("queue_until", ""),
            )
        except (services.HoldNotFound, keyset.BadCursor):
            return None
        if hold.status != Hold.Status.OPEN:
            return None
        inbox.mark_hold_read(user, hold)
        d = decision_context(user, hold)
        if d["can_decide"] and services.needs_step_up(hold):
            d["step_up"] = _step_up(request, refused=False)
        context = {**rows, "open_hold": hold.id, "verdict": verdict, "d": d}
        answer = fragment(request, "reviews/decisions/_decided.html", context)
        answer["HX-Reselect"] = "#decision"
        return answer

    def _show(
        self,
        request: HttpRequest,
        hold: Hold,
        form: FormState | None = None,
        status: int = 200,
        *,
        step_up_refused: bool = False,
    ) -> HttpResponse:
        d = self.context(request, hold, form)
        if d["can_decide"] and (step_up_refused or services.needs_step_up(hold)):
            d["step_up"] = _step_up(request, refused=step_up_refused)
        if is_htmx(request):
            return fragment(request, "reviews/decisions/_decision.html", {"d": d}, status=status)
        return self.page(request, hold, d, status)

    def context(self, request: HttpRequest, hold: Hold, form: FormState | None) -> dict[str, Any]:
        """`d` of the templates."""
        return decision_context(current_user(request), hold, form)

    def page(
        self, request: HttpRequest, hold: Hold, d: dict[str, Any], status: int
    ) -> HttpResponse:
        """The whole page."""
        return page(
            request, "reviews/decisions/decision.html", {"d": d}, section="review", status=status
        )


def _step_up(request: HttpRequest, *, refused: bool) -> dict[str, Any] | None:
    """Return the prompt for a second-factor code; None while a confirmation is valid."""
    if step_up.is_recent(step_up.confirmed_at(request)):
        return None
    return {
        "url": reverse("step-up-confirmed"),
        "refused": refused,
        "look": "bad" if refused else "",
    }


class _Posted:
    """A posted decision, read."""

    def __init__(self, request: HttpRequest, hold: Hold) -> None:
        self._request = request
        self._data = request.POST
        self._hold = hold
        self._schema = payload_schema(hold)
        # What the person saw: the secrets masked.  Their answer is about that.
        self._seen = as_shown(hold, shown_payload(hold, self._schema))
        self._text = pretty(self._seen.payload)
        self.decision = self._data.get("decision", "")
        self.comment = self._data.get("comment", "").replace("\r\n", "\n").strip()
        self.mode = "json" if self._data.get("mode") == "json" else "form"
        self.asks_for_more = "more" in self._data
        #: The user wants their text beside what another user decided; this decides nothing.
        self.compares = "compare" in self._data
        self._shown = parse_natural_number(self._data.get("read", "")) or 0
        self.version, found = self._version()
        self.kept = parse_kept_tasks(self._data, hold)
        self._value = self._read()
        self.change = NO_CHANGE
        self.grant_choice = self._grant_choice()
        self.standing = self._standing_choice()
        self._terms, terms_errors = self.standing.terms()
        self.errors = (*found, *self._value.errors, *self._decide(), *terms_errors)
        self.unnamed = self._unnamed()

    def _version(self) -> tuple[int, list[FieldError]]:
        version = parse_natural_number(self._data.get("version", ""))
        if version is not None:
            return version, []
        return 0, [FieldError("version", "is missing; open the page again")]

    def _grant_choice(self) -> GrantChoice:
        return parse_grant_choice(
            self._data.get("grant_scope", ""), self._data.get("grant_seconds", "")
        )

    def _standing_choice(self) -> StandingChoice:
        if self.decision != Decision.APPROVE:
            return NOT_GIVEN
        return parse_standing_choice(self._data, self._seen.payload)

    def _read(self) -> FormValue:
        """The payload as the person made it."""
        # A payload that is not shown whole cannot be edited on the page.
        is_long = len(self._text) > MAX_SHOWN_CHARACTERS
        untouched = (self.decision != Decision.APPROVE and not self.compares) or is_long
        if untouched or is_plan_review(self._hold):
            return FormValue(self._seen.payload)
        if self.mode == "form":
            return posted_value(self._schema, self._seen.payload, self._data)
        text = self._data.get("edits_json", "").replace("\r\n", "\n").strip()
        if not text or text == self._text.strip():
            return FormValue(self._seen.payload)
        return posted_json(text)

    def _decide(self) -> tuple[FieldError, ...]:
        if self.decision not in ANSWERS:
            return (FieldError("decision", "must be approve, reject or request changes"),)
        if self.decision != Decision.APPROVE or self._value.errors:
            return ()
        if len(self._text) > max(MAX_SHOWN_CHARACTERS, self._shown):
            return (FieldError("", "Not all of it was shown, so it cannot be approved here."),)
        if is_plan_review(self._hold):
            self.change = Change(self.kept.edits)
            return self.kept.errors
        try:
            self.change = change_to(self._hold, self._value.value, self._seen.payload)
        except ReviewInvalid as invalid:
            return _unprefixed(invalid)
        return ()

    def _unnamed(self) -> tuple[str, ...]:
        """Return the keys that the edit adds and the tool's schema does not declare."""
        if self.change.is_empty or self.errors or is_plan_review(self._hold):
            return ()
        return undeclared_keys(self._schema, self._seen.payload, self._value.value)

    @property
    def needs_confirmation(self) -> bool:
        """Whether the user has not yet confirmed the diff of the edit, or its warnings."""
        if self.change.is_empty:
            return False
        if tuple(self._data.getlist("confirmed_unnamed")) != self.unnamed:
            return True
        if is_plan_review(self._hold):
            return not self.kept.confirmed
        return self._data.get("confirmed") != "yes"

    @property
    def is_stale(self) -> bool:
        shown = self._data.get("shown", "")
        return bool(shown) and shown != shown_digest(self._hold)

    def decision_request(self) -> services.DecisionRequest:
        return services.DecisionRequest(
            hold_id=self._hold.id,
            user=current_user(self._request),
            decision=self.decision,
            version=self.version,
            source="web",
            edits=self.change.edits,
            set_output_null=self.change.set_output_null,
            comment=self.comment,
            grant_scope=self.grant_choice.scope,
            grant_seconds=self.grant_choice.seconds,
            standing=self._terms,
            undo_seconds=services.undo_seconds_for(self._hold),
            confirmed_at=step_up.confirmed_at(self._request),
        )

    def form_state(
        self, errors: tuple[FieldError, ...] = (), *, stale: bool = False, confirm: bool = False
    ) -> FormState:
        """What to show again; unreadable JSON keeps the payload as it was, and its text."""
        broken = self.mode == "json" and self._value.errors
        return FormState(
            value=self._seen.payload if broken else self._value.value,
            text=self._data.get("edits_json", "") if self.mode == "json" else "",
            comment=self.comment,
            mode=self.mode,
            errors=errors,
            rejected=self._value.rejected,
            stale=stale,
            confirm=confirm,
            unnamed=self.unnamed,
            grant_choice=self.grant_choice,
            standing=self.standing,
            kept=self.kept,
            decision=self.decision,
            read=self._shown + (MAX_SHOWN_CHARACTERS if self.asks_for_more else 0),
            asks_for_more=self.asks_for_more,
        )


def _on_page(path: str) -> str:
    """Return a path relative to the payload; "" for the payload itself."""
    return "" if path == "set_output_null" else path.removeprefix("edits").removeprefix(".")


def _unprefixed(invalid: ReviewInvalid) -> tuple[FieldError, ...]:
    """Paths as the page knows them: without "edits" in front."""
    return tuple(FieldError(_on_page(each.path), each.message) for each in invalid.errors)
