"""All addresses of the product."""

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path
from drf_spectacular.views import (
    SpectacularAPIView,
    SpectacularSwaggerSplitView,
)

from config.auth.landing import home
from config.auth.new_password import NewPasswordView
from config.auth.sign_in import SignInView
from config.observability.health import livez, readyz
from config.observability.metrics import metrics
from config.web.api_reference import RedocView
from workflows import extensions
from workflows.approvals.client_files import ClientFileView

handler400 = "config.web.error_pages.bad_request"
handler403 = "config.web.error_pages.permission_denied"
handler404 = "config.web.error_pages.not_found"
handler500 = "config.web.error_pages.server_error"

# Workers and the sweeper load the admin only with the addresses.
admin.autodiscover()

urlpatterns = [
    path("", home, name="home"),
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("client/<path:name>", ClientFileView.as_view(), name="client-file"),
    path("login/", SignInView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("new-password/<uidb64>/<token>/", NewPasswordView.as_view(), name="new_password"),
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
# Before the addresses of the core, some of which take every name.
urlpatterns[:0] = [path("", include(module)) for module in extensions.url_modules()]

if settings.OAUTH:
    urlpatterns += [path("", include("config.auth.oauth.urls"))]

if settings.OIDC:
    from config.auth.oidc import views as oidc

    urlpatterns += [
        path("login/oidc/", oidc.start, name="oidc-start"),
        path("login/oidc/callback/", oidc.callback, name="oidc-callback"),
    ]

if apps.is_installed("allauth.mfa"):
    urlpatterns += [path("account/", include("config.auth.second_factor.urls"))]
