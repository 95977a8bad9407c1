"""Pages of backtests, published rules and skipped reviews."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from reviews.audit.audit_lists import TEMPLATE
from reviews.backtests import services
from reviews.backtests.pages import (
    check_context,
    draft_context,
    read_draft,
    report_context,
    rules_context,
    workflow_of,
)
from reviews.backtests.skipped_reviews import skipped_reviews_context
from reviews.components.reasons import render_reason
from reviews.components.views import SeeOther, current_user, cursor_or_404, fragment, page
from reviews.models import Backtest
from workflows.common.number_parsing import parse_natural_number
from workflows.engine.plans.validation import Problem
from workflows.engine.protocol.decide import Refused
from workflows.executions.access import may_backtest, workflows_for
from workflows.executions.validation import InvalidRequest
from workflows.models import RuleVersion, Workflow
from workflows.review_rules import publish as review_rules_publish


def _allowed(request: HttpRequest) -> None:
    if not may_backtest(current_user(request)):
        raise PermissionDenied


@login_required
def backtest(request: HttpRequest) -> HttpResponse:
    """Show the draft form of `?workflow=` and the list of backtests; POST starts a backtest."""
    _allowed(request)
    user = current_user(request)
    form = request.POST if request.method == "POST" else request.GET
    workflow = workflow_of(user, form.get("workflow", ""))
    problems: tuple[Problem, ...] = ()
    if request.method == "POST" and workflow is None:
        problems = (Problem("workflow", "required", _("choose a workflow")),)
    elif request.method == "POST" and workflow is not None:
        started = _started(request, workflow)
        if isinstance(started, Backtest):
            return SeeOther(reverse("reviews:backtest_report", args=(started.pk,)))
        problems = started
    context = draft_context(user, workflow, form, problems, is_new=request.method != "POST")
    status = 422 if problems else 200
    return page(request, "reviews/backtests/draft.html", context, section="insights", status=status)


def _started(request: HttpRequest, workflow: Workflow) -> Backtest | tuple[Problem, ...]:
    draft = read_draft(workflow, request.POST)
    if draft.problems:
        return draft.problems
    try:
        with transaction.atomic():
            return services.start(
                user=current_user(request),
                workflow=workflow,
                rules=draft.rules,
                since=draft.since,
                until=draft.until,
            )
    except InvalidRequest as invalid:
        return invalid.problems
    except Refused as refusal:
        return (Problem("", refusal.code, render_reason(refusal.reason)),)


@login_required
@require_POST
def check(request: HttpRequest) -> HttpResponse:
    """Return the problems of the draft, or its effect on the newest reviews."""
    _allowed(request)
    workflow = workflow_of(current_user(request), request.POST.get("workflow", ""))
    if workflow is None:
        raise Http404
    context = check_context(workflow, read_draft(workflow, request.POST))
    return fragment(request, "reviews/backtests/_check.html", context)


def _report(request: HttpRequest, backtest_id: int) -> Backtest:
    return get_object_or_404(services.visible(current_user(request)), pk=backtest_id)


@login_required
@require_safe
def report(request: HttpRequest, backtest_id: int) -> HttpResponse:
    """Show a backtest."""
    context = report_context(current_user(request), _report(request, backtest_id))
    return page(request, "reviews/backtests/report.html", context, section="insights")


@login_required
@require_safe
def progress(request: HttpRequest, backtest_id: int) -> HttpResponse:
    """Return the progress; reload the page when the backtest has ended."""
    found = _report(request, backtest_id)
    context = report_context(current_user(request), found)
    answer = fragment(request, "reviews/backtests/_progress.html", context)
    if context["is_done"] or context["is_failed"]:
        answer["HX-Refresh"] = "true"
    return answer


@login_required
@require_POST
def publish(request: HttpRequest, backtest_id: int) -> HttpResponse:
    """Publish the rules of a backtest."""
    found = _report(request, backtest_id)
    here = reverse("reviews:backtest_report", args=(backtest_id,))
    try:
        published = services.publish(
            user=current_user(request),
            backtest=found,
            source="web",
            comment=request.POST.get("comment", "").strip(),
        )
    except (InvalidRequest, Refused, review_rules_publish.RulesChanged) as refusal:
        text = render_reason(refusal.reason) if isinstance(refusal, Refused) else str(refusal)
        messages.error(request, text)
        return SeeOther(here)
    messages.success(request, _published_message(published.number))
    return SeeOther(reverse("reviews:workflow_rules", args=(found.workflow_id,)))


def _published_message(number: int) -> str:
    return _("Rules v%(number)s are active for runs that start from now on.") % {"number": number}


@login_required
def rules(request: HttpRequest, workflow_id: int) -> HttpResponse:
    """List the versions of a workflow's rules; POST publishes one again, or removes all rules."""
    user = current_user(request)
    workflow = get_object_or_404(workflows_for(user), pk=workflow_id)
    if request.method == "POST":
        try:
            published = _republish(request, workflow)
        except (InvalidRequest, review_rules_publish.RulesChanged) as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, _published_message(published.number))
        return SeeOther(reverse("reviews:workflow_rules", args=(workflow.pk,)))
    context = rules_context(user, workflow)
    return page(request, "reviews/backtests/rules.html", context, section="workflows")


def _republish(request: HttpRequest, workflow: Workflow) -> RuleVersion:
    wanted, seen = request.POST.get("number", ""), request.POST.get("seen", "")
    found = (parse_natural_number(each, digits=8) for each in (wanted, seen))
    numbers = [-1 if number is None else number for number in found]
    user, comment = current_user(request), request.POST.get("comment", "").strip()
    if wanted == "none":
        return review_rules_publish.publish(
            actor=user,
            workflow=workflow,
            rules=[],
            expected=numbers[1],
            source="web",
            comment=comment,
        )
    return review_rules_publish.republish(
        actor=user,
        workflow=workflow,
        number=numbers[0],
        expected=numbers[1],
        source="web",
        comment=comment,
    )


@login_required
@require_safe
def spared(request: HttpRequest) -> HttpResponse:
    """List skipped reviews, filtered by `?workflow=` and `?rule=`."""
    with cursor_or_404():
        context = skipped_reviews_context(
            current_user(request),
            cursor=request.GET.get("cursor", ""),
            workflow=request.GET.get("workflow", ""),
            rule=request.GET.get("rule", ""),
        )
    return page(request, TEMPLATE, context, section="history")
