"""URL routes of the sockets."""

from django.urls import path

from .consumers import ExecutionConsumer, ReviewQueueConsumer

websocket_urlpatterns = [
    path("ws/reviews/", ReviewQueueConsumer.as_asgi()),
    path("ws/executions/<int:execution_id>/", ExecutionConsumer.as_asgi()),
]
