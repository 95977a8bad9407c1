"""URLs of OAuth; the namespace is the one that django-oauth-toolkit reverses."""

from django.urls import path
from oauth2_provider import views
from oauth2_provider.urls import dcr_urlpatterns, metadata_urlpatterns

from .views import ConsentView, JsonTokenView, ResourceMetadataView

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
]
for each in dcr_urlpatterns:
    urlpatterns.append(path(f"oauth/{each.pattern}", each.callback, name=each.name))
