"""Addresses of coding agents: the page, the endpoints of hooks and the script."""

from pathlib import Path

from django.urls import path

from workflows.approvals.client_files import ClientFileView

from .api import HookStopView, HookView
from .views import connect

app_name = "coding_agents"
urlpatterns = [
    path("tokens/coding-agents/", connect, name="connect"),
    path("api/v1/hooks/<str:agent>/", HookView.as_view(), name="hook"),
    path("api/v1/hooks/<str:agent>/stop/", HookStopView.as_view(), name="hook_stop"),
    path(
        "client/hook.py",
        ClientFileView.as_view(folder=Path(__file__).with_name("client")),
        {"name": "hook.py"},
        name="script",
    ),
]
