"""Pages of the audit log: history, one record, exports, revealed values and denied attempts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_POST, require_safe

from reviews.audit.audit_lists import TEMPLATE
from reviews.audit.exports import FORMATS, create_export
from reviews.audit.history import filtered, parse_filters, records
from reviews.audit.pages import denied_context, history_context, record_context
from reviews.audit.reveals import MaskedValueNotFound, reveal
from reviews.audit.signing import public_keys
from reviews.components.reasons import render_reason
from reviews.components.views import current_user, cursor_or_404, fragment, is_htmx, page
from reviews.decisions.masked_values import revealed_context, reveals_context
from reviews.decisions.rights import NotAllowed
from workflows.common.number_parsing import parse_natural_number


@login_required
@require_safe
def history(request: HttpRequest) -> HttpResponse:
    """List decisions, newest first; the query string holds the filters."""
    with cursor_or_404():
        context = history_context(current_user(request), request.GET)
    return page(request, "reviews/audit/history.html", context, section="history")


@login_required
@require_safe
def record(request: HttpRequest, record_id: int) -> HttpResponse:
    """Show one record: the original, edited and executed data."""
    rows = records(current_user(request)).select_related("execution", "hold")
    found = rows.filter(pk=record_id).first()
    if found is None:
        raise Http404
    context = {"record": record_context(current_user(request), found)}
    return page(request, "reviews/audit/record.html", context, section="history")


# --- exports, denied attempts ---------------------------------------------------------------------


_NOT_FILTERS = frozenset({"as", "cursor"})


@login_required
@require_safe
def export(request: HttpRequest) -> HttpResponseBase:
    """Download the decisions that match the filters; `as` is csv or jsonl.

    Responds with 400 and the error messages for an invalid filter.
    """
    kind = request.GET.get("as", "jsonl")
    filters = parse_filters(request.GET)
    problems = [f"{each.path} {each.message}" for each in filters.errors]
    if kind not in FORMATS:
        problems.append(f"as must be one of {', '.join(FORMATS)}")
    if problems:
        return HttpResponse("\n".join(problems), status=400, content_type="text/plain")
    active = {
        name: str(value)
        for name, value in request.GET.items()
        if value and name not in _NOT_FILTERS
    }
    user = current_user(request)
    result = create_export(filtered(records(user), filters), filters=active, user=user)
    answer = StreamingHttpResponse(result.lines(kind), content_type=FORMATS[kind])
    name = f"history-{result.header.exported_at:%Y-%m-%d-%H%M}.{kind}"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["Cache-Control"] = "no-store"
    return answer


@login_required
@require_safe
def audit_key(request: HttpRequest) -> HttpResponse:
    """Download the public keys of the audit log, one per line; empty without a signing key."""
    lines = "".join(f"{key}\n" for key in public_keys())
    answer = HttpResponse(lines, content_type="text/plain")
    answer["Content-Disposition"] = 'attachment; filename="audit-key.txt"'
    return answer


@login_required
@require_safe
def denied(request: HttpRequest) -> HttpResponse:
    """List denied attempts to decide a review."""
    with cursor_or_404():
        context = denied_context(current_user(request), cursor=request.GET.get("cursor", ""))
    return page(request, TEMPLATE, context, section="history")


# --- revealed values ------------------------------------------------------------------------------


@login_required
@require_POST
def show(request: HttpRequest) -> HttpResponse:
    """Reveal one masked value: as a fragment for htmx, else as a page."""
    number = parse_natural_number(request.POST.get("number", ""))
    if number is None:
        raise Http404
    context: dict[str, Any]
    try:
        secret = reveal(
            place=request.POST.get("place", ""),
            number=number,
            user=current_user(request),
            source="web",
        )
    except MaskedValueNotFound:
        raise Http404 from None
    except NotAllowed as refused:
        context = {"revealed": None, "refused": render_reason(refused.reason)}
        return _answer(request, context, status=403)
    return _answer(request, {"revealed": revealed_context(secret), "refused": ""}, status=200)


def _answer(request: HttpRequest, context: dict[str, Any], status: int) -> HttpResponse:
    if is_htmx(request):
        return fragment(request, "reviews/components/_revealed.html", context, status=status)
    return page(request, "reviews/audit/revealed.html", context, section="review", status=status)


@login_required
@require_safe
def reveals(request: HttpRequest) -> HttpResponse:
    """List revealed values."""
    with cursor_or_404():
        context = reveals_context(current_user(request), cursor=request.GET.get("cursor", ""))
    return page(request, TEMPLATE, context, section="history")
