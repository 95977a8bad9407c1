"""The history as a file, and the attempts that were refused."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_safe

from reviews.audit.denied_page import denied_context
from reviews.audit.exports import FORMATS, export_of
from reviews.audit.history import filtered, parse_filters, records
from reviews.audit.list_page import TEMPLATE
from reviews.audit.signing import public_keys
from reviews.components.views import good_cursor, page, person

_NOT_FILTERS = frozenset({"as", "cursor"})


@login_required
@require_safe
def export(request: HttpRequest) -> HttpResponseBase:
    """Every decision that fits the filters; `as` is csv or jsonl.  400 names a bad filter."""
    kind = request.GET.get("as", "jsonl")
    filters = parse_filters(request.GET)
    problems = [f"{each.path} {each.message}" for each in filters.errors]
    if kind not in FORMATS:
        problems.append(f"as must be one of {', '.join(FORMATS)}")
    if problems:
        return HttpResponse("\n".join(problems), status=400, content_type="text/plain")
    asked = {
        name: str(value)
        for name, value in request.GET.items()
        if value and name not in _NOT_FILTERS
    }
    user = person(request)
    made = export_of(filtered(records(user), filters), filters=asked, user=user)
    answer = StreamingHttpResponse(made.lines(kind), content_type=FORMATS[kind])
    name = f"history-{made.header.exported_at:%Y-%m-%d-%H%M}.{kind}"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    answer["Cache-Control"] = "no-store"
    return answer


@login_required
@require_safe
def audit_key(request: HttpRequest) -> HttpResponse:
    """The public keys of the audit log as a file, one a line; empty where nothing is signed."""
    lines = "".join(f"{key}\n" for key in public_keys())
    answer = HttpResponse(lines, content_type="text/plain")
    answer["Content-Disposition"] = 'attachment; filename="audit-key.txt"'
    return answer


@login_required
@require_safe
def denied(request: HttpRequest) -> HttpResponse:
    """Who tried to decide what was not theirs."""
    with good_cursor():
        context = denied_context(person(request), cursor=request.GET.get("cursor", ""))
    return page(request, TEMPLATE, context, section="history")
