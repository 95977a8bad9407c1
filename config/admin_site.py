"""The admin site: Django's own in the frame of the desk, sorted by what people do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils.functional import Promise
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from .admin_requests import check_request


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the admin: its models (`app.model`), in the order they are listed.

    `icon` is also the name of the rail's entry that is marked on its pages.
    """

    key: str
    label: str | Promise
    icon: str
    models: tuple[str, ...]


SECTIONS = (
    Section(
        "reviews",
        _("Reviews"),
        "review",
        ("workflows.hold", "reviews.humanreviewrecord", "reviews.reviewclaim"),
    ),
    Section(
        "runs",
        _("Runs"),
        "runs",
        (
            "workflows.execution",
            "workflows.approval",
            "workflows.approvalpolicy",
            "workflows.businesscalendar",
            "reviews.retentionpolicy",
            "reviews.legalhold",
            "reviews.retentionentry",
        ),
    ),
    Section("workflows", _("Workflows"), "workflows", ("workflows.workflow",)),
    Section(
        "tools",
        _("Tools"),
        "tools",
        (
            "graphrag.tool",
            "workflows.mcpserver",
            "workflows.gate",
            "workflows.gatecall",
            "workflows.capability",
            "graphrag.tooldependency",
            "graphrag.learnedexecution",
        ),
    ),
    Section(
        "people",
        _("People and access"),
        "people",
        (
            "auth.user",
            "auth.group",
            "workflows.absence",
            "workflows.apitoken",
            "workflows.grant",
            "workflows.signinalert",
            "socialaccount.socialaccount",
            "reviews.slackaccount",
            "mfa.authenticator",
        ),
    ),
    Section(
        "integrations",
        _("Integrations"),
        "integrations",
        (
            "workflows.webhookendpoint",
            "workflows.webhookdelivery",
            "oauth2_provider.application",
            "reviews.chathook",
            "reviews.noticemessage",
            "reviews.slackworkspace",
            "reviews.slackmessage",
        ),
    ),
    # Models that no other section names are here too.
    Section(
        "system",
        _("System"),
        "system",
        (
            "workflows.commandlog",
            "reviews.securityevent",
            "reviews.securityexport",
            "django_rq.dashboard",
        ),
    ),
)
#: Names of lists that differ from the models' own.
NAMES = {
    "workflows.hold": _("Pending reviews"),
    "auth.user": _("People"),
    "auth.group": _("Groups"),
    "django_rq.dashboard": _("Background jobs"),
    "mfa.authenticator": _("Second factors"),
    "oauth2_provider.application": _("OAuth clients"),
    "socialaccount.socialaccount": _("Accounts of the sign-in provider"),
}


class HoldpointAdminSite(AdminSite):
    """`admin.site` of the product."""

    site_header = "Holdpoint"
    site_title = "Holdpoint"
    index_title = _("Administration")
    site_url = "/review/"
    enable_nav_sidebar = False
    login_template = "registration/login.html"
    # An unknown address is answered as everywhere else; Django's own would turn a POST into a GET.
    final_catch_all_view = False

    def get_urls(self) -> list[URLResolver | URLPattern]:
        """Add the pages of workflows and a page for each section.

        Django's redirect to an object's page on the site is left out: our models name that page
        in their admin, and the redirect would look up any row of any table.
        """
        from reviews.admin import plan_editor

        section = path("section/<slug:key>/", self.admin_view(self.section), name="section")
        workflows = [
            path(
                f"workflows/workflow/{address}",
                self.admin_view(view.as_view()),
                name=f"workflows_workflow_{name}",
            )
            for name, address, view in (
                ("editor", "editor/", plan_editor.AdminEditor),
                ("planner", "planner/", plan_editor.AdminPlanner),
                ("versions", "<int:workflow_id>/versions/", plan_editor.AdminVersions),
                (
                    "restore",
                    "<int:workflow_id>/versions/<int:number>/restore/",
                    plan_editor.AdminRestore,
                ),
            )
        ]
        others = [
            each for each in super().get_urls() if getattr(each, "name", None) != "view_on_site"
        ]
        return [section, *workflows, *others]

    def admin_view(
        self,
        view: Callable[..., Any],
        cacheable: bool = False,  # noqa: FBT001, FBT002 - Django's
    ) -> Any:
        """Refuse impossible requests before any view of the admin reads them."""

        @wraps(view)
        def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            check_request(request, view, kwargs)
            return view(request, *args, **kwargs)

        return super().admin_view(checked, cacheable)

    def get_app_list(
        self, request: HttpRequest, app_label: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the models that the user may open, by section instead of by app.

        With `app_label`, only models of that app.
        """
        models = {}
        for app in super().get_app_list(request, app_label):
            for entry in app["models"]:
                label = entry["model"]._meta.label_lower
                models[label] = {**entry, "name": NAMES.get(label, entry["name"])}
        sections = []
        for section in SECTIONS:
            listed = [models.pop(label) for label in section.models if label in models]
            if section is SECTIONS[-1]:
                listed += models.values()
            if listed:
                sections.append(
                    {
                        "name": section.label,
                        "app_label": section.key,
                        "app_url": reverse("admin:section", args=(section.key,)),
                        "has_module_perms": True,
                        "icon": section.icon,
                        "models": listed,
                    }
                )
        return sections

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Add what the frame shows: rail, bell, person and breadcrumbs."""
        context = super().each_context(request)
        if not self.has_permission(request):
            return context
        from reviews.components.views import current_user, frame_context

        found = _place(request, context["available_apps"])
        section = found[0]["icon"] if found else "admin"
        return {
            **context,
            **frame_context(current_user(request), section),
            "crumbs": _crumbs(request, found),
            "list_name": capfirst(found[1]["name"]) if found else "",
        }

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """Show counts and the oldest reviews above the sections."""
        from reviews.admin.overview import overview_context

        overview = overview_context(request)
        return super().index(request, {**(extra_context or {}), **overview, "crumbs": ()})

    def section(self, request: HttpRequest, key: str) -> TemplateResponse:
        """List the models of one section."""
        context = self.each_context(request)
        found = [each for each in context["available_apps"] if each["app_label"] == key]
        if not found:
            raise Http404
        title = found[0]["name"]
        context |= {"title": title, "sections": found, "section": found[0]["icon"]}
        return TemplateResponse(request, "admin/section.html", context)

    def app_index(  # type: ignore[override]
        self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Redirect to the index: people do not look for things by app."""
        return HttpResponseRedirect(reverse("admin:index"))

    def login(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Use the sign-in page of the product; refuse a user who is not staff."""
        if request.method == "POST" or self.has_permission(request):
            return super().login(request, extra_context)
        if request.user.is_authenticated:
            raise PermissionDenied(_("Your account cannot open the administration."))
        target = request.GET.get(REDIRECT_FIELD_NAME, "") or reverse("admin:index")
        query = urlencode({REDIRECT_FIELD_NAME: target})
        return HttpResponseRedirect(f"{resolve_url(settings.LOGIN_URL)}?{query}")


def _place(
    request: HttpRequest, sections: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the section and the model of the page, by the name of its URL."""
    match = request.resolver_match
    name = (match.url_name if match else None) or ""
    for section in sections:
        for entry in section["models"]:
            options = entry["model"]._meta
            prefixes = [f"{options.app_label}_{options.model_name}_"]
            if options.app_label == "django_rq":
                prefixes.append("django_rq_")
            if name.startswith(tuple(prefixes)):
                return section, entry
    return None


def _crumbs(
    request: HttpRequest, found: tuple[dict[str, Any], dict[str, Any]] | None
) -> list[dict[str, Any]]:
    """Return links to the pages above this one; the page itself is added by the template."""
    crumbs = [{"label": _("Admin"), "url": reverse("admin:index")}]
    if found:
        section, entry = found
        crumbs.append({"label": section["name"], "url": section["app_url"]})
        if entry["admin_url"] and entry["admin_url"] != request.path:
            crumbs.append({"label": capfirst(entry["name"]), "url": entry["admin_url"]})
    return crumbs
