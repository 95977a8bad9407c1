"""The ASGI application: HTTP by Django, `/mcp` by the MCP servers, WebSockets by Channels."""

import os
from typing import Any

from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")
if not settings.configured:  # tests and commands set the role themselves
    os.environ.setdefault("HOLDPOINT_ROLE", "web")

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import get_resolver

django = get_asgi_application()  # before our own imports: it loads the apps

from config.web.body_limits import limit_body  # noqa: E402
from config.web.request_thread import in_request_thread  # noqa: E402
from config.web.socket_origins import BrowserOriginValidator  # noqa: E402
from reviews.sockets.routing import no_socket, websocket_urlpatterns  # noqa: E402
from workflows import mcp_server  # noqa: E402
from workflows.common.parent_death import end_with_starter  # noqa: E402
from workflows.mcp_gate import asgi as mcp_gate  # noqa: E402

http = in_request_thread(django)
mcp = mcp_server.http_app()
gate = mcp_gate.http_app()


async def route_http(scope: Any, receive: Any, send: Any) -> None:
    """Send `/mcp` and `/mcp/gate/` to the servers, which check tokens, other paths to Django."""
    path = scope["path"]
    app = mcp if path in ("/mcp", "/mcp/") else gate if path.startswith("/mcp/gate/") else http
    await app(scope, receive, send)


# The origin is checked, with scheme and port, before the session is read: a page of another site
# must not open a socket with the visitor's cookies.
protocols = ProtocolTypeRouter(
    {
        "http": limit_body(route_http),
        "websocket": BrowserOriginValidator(
            AuthMiddlewareStack(URLRouter([*websocket_urlpatterns, no_socket])),
            settings.ALLOWED_ORIGINS,
        ),
    }
)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Serve the product at the root path: daphne takes another one from a header of any client."""
    await protocols({**scope, "root_path": ""}, receive, send)


if settings.HOLDPOINT_ROLE == "web":
    end_with_starter()
    get_resolver().url_patterns  # noqa: B018 - loads all views before the first request
