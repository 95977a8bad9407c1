"""URL routes of the sockets."""

from typing import Any

from django.urls import path, re_path

from .consumers import ExecutionConsumer, ReviewQueueConsumer


async def refuse(scope: Any, receive: Any, send: Any) -> Any:
    """Refuse the handshake (403): without a route the router raises an error, and logs it."""
    await receive()
    await send({"type": "websocket.close"})


websocket_urlpatterns = [
    path("ws/reviews/", ReviewQueueConsumer.as_asgi()),
    path("ws/executions/<int:execution_id>/", ExecutionConsumer.as_asgi()),
]
#: The last route: every other address.
no_socket = re_path("", refuse)
