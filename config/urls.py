"""All addresses of the product."""

from django.contrib import admin
from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path
from django.views.generic import RedirectView
from django.views.i18n import set_language
from drf_spectacular.views import (
    SpectacularAPIView,
    SpectacularSwaggerSplitView,
)

from config.health import livez, readyz
from config.languages import ScriptWords
from config.metrics import metrics
from config.reference import RedocView

handler400 = "config.errors.bad_request"
handler403 = "config.errors.permission_denied"
handler404 = "config.errors.not_found"
handler500 = "config.errors.server_error"

urlpatterns = [
    path("", RedirectView.as_view(url="/review/"), name="home"),
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("login/", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("language/", set_language, name="set_language"),
    path("words/<str:language>-<str:version>.js", ScriptWords.as_view(), name="words"),
    path("admin/", admin.site.urls),
    path("django-rq/", include("django_rq.urls")),
    path("api/v1/", include("workflows.api.urls")),
    path("api/v1/", include("reviews.api.urls")),
    path("api/v1/", include("graphrag.api.urls")),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="api-docs"),
    path("api/redoc/", RedocView.as_view(), name="api-redoc"),
    path("", include("reviews.urls")),
]
