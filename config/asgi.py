"""The ASGI application: http by Django, sockets by channels behind an origin check."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.asgi import get_asgi_application

http = get_asgi_application()  # before our own imports: it loads the apps

from config.sockets import BrowserOriginValidator  # noqa: E402
from reviews.routing import websocket_urlpatterns  # noqa: E402

# The origin is compared with scheme and port, and before anything reads the session: a page of
# another site must not be able to open a socket with the visitor's cookies.
application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": BrowserOriginValidator(
            AuthMiddlewareStack(URLRouter(websocket_urlpatterns)), settings.ALLOWED_ORIGINS
        ),
    }
)
