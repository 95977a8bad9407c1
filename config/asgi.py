"""The ASGI application: http by Django, `/mcp` by the MCP gateway, sockets by channels behind an
origin check.
"""

import os
import sys
from typing import Any

from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")
if not settings.configured:  # a test or a command has settings, and a role, already
    os.environ.setdefault("HOLDPOINT_ROLE", "web")

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import get_resolver

django = get_asgi_application()  # before our own imports: it loads the apps

from config.web.body_limits import bounded  # noqa: E402
from config.web.request_thread import lending  # noqa: E402
from config.web.socket_origins import BrowserOriginValidator  # noqa: E402
from reviews.sockets.routing import websocket_urlpatterns  # noqa: E402
from workflows.common import gc_freeze  # noqa: E402
from workflows.common.parent_death import end_with_starter  # noqa: E402
from workflows.mcp_gateway import http_app  # noqa: E402

http = lending(django)
mcp = http_app()


async def by_path(scope: Any, receive: Any, send: Any) -> None:
    """`/mcp` has a token of its own to check, and neither sessions nor pages."""
    app = mcp if scope["path"] in ("/mcp", "/mcp/") else http
    await app(scope, receive, send)


# The origin is compared with scheme and port, and before anything reads the session: a page of
# another site must not be able to open a socket with the visitor's cookies.
application = ProtocolTypeRouter(
    {
        "http": bounded(by_path),
        "websocket": BrowserOriginValidator(
            AuthMiddlewareStack(URLRouter(websocket_urlpatterns)), settings.ALLOWED_ORIGINS
        ),
    }
)

if "daphne.server" in sys.modules:
    from config.web.daphne_limits import bound_daphne

    bound_daphne()

if settings.HOLDPOINT_ROLE == "web":
    end_with_starter()
    get_resolver().url_patterns  # noqa: B018 - every view is loaded now, not by the first visitor
    gc_freeze.freeze_loaded_objects()
