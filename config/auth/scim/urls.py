"""Routes of SCIM; RFC 7644 writes them without a slash at the end."""

from django.urls import path

from .views import DiscoveryView, GroupsView, GroupView, UsersView, UserView

urlpatterns = [
    path("Users", UsersView.as_view(), name="scim-users"),
    path("Users/<int:user_id>", UserView.as_view(), name="scim-user"),
    path("Groups", GroupsView.as_view(), name="scim-groups"),
    path("Groups/<int:group_id>", GroupView.as_view(), name="scim-group"),
    *(
        route
        for name in ("ServiceProviderConfig", "ResourceTypes", "Schemas")
        for route in (
            path(name, DiscoveryView.as_view(), {"name": name}, name=f"scim-{name}"),
            path(f"{name}/<str:key>", DiscoveryView.as_view(), {"name": name}, name=f"scim-{name}"),
        )
    ),
]
