"""URLs of OAuth; the namespace is the one that django-oauth-toolkit reverses."""

from django.urls import path
from oauth2_provider import views
from oauth2_provider.urls import metadata_urlpatterns

from .views import (
    ConsentView,
    JsonTokenView,
    RegisteredClientView,
    RegistrationView,
    ResourceMetadataView,
)

app_name = "oauth2_provider"
_RESOURCE = ".well-known/oauth-protected-resource"
urlpatterns = [
    path(_RESOURCE, ResourceMetadataView.as_view(), name="oauth-resource-metadata"),
    path(
        f"{_RESOURCE}/<path:resource_path>",
        ResourceMetadataView.as_view(),
        name="oauth-resource-metadata-path",
    ),
    *metadata_urlpatterns,
    path("oauth/authorize/", ConsentView.as_view(), name="authorize"),
    path("oauth/token/", JsonTokenView.as_view(), name="token"),
    path("oauth/revoke/", views.RevokeTokenView.as_view(), name="revoke-token"),
    path("oauth/register/", RegistrationView.as_view(), name="dcr-register"),
    path(
        "oauth/register/<str:client_id>/",
        RegisteredClientView.as_view(),
        name="dcr-register-management",
    ),
]
