"""Django's way through ASGI with one change of threads in a request instead of a dozen."""

from __future__ import annotations

from typing import Any

import django
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class ThreadedHandler(ASGIHandler):
    """Runs everything between a request and its response in the request's thread.

    Our views and most middleware are plain functions.  Django's own handler goes to the event loop
    and back for the few pieces that could be awaited, for each check before the view and for the
    view itself; each time the thread waits until the loop is free, which a busy process feels.
    An `async` view would be awaited from the thread; the loop sends streamed answers, as ever.
    """

    def __init__(self) -> None:
        # Not ASGIHandler's: it would load the chain for the event loop.
        super(ASGIHandler, self).__init__()
        self.load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """The response, made in the thread of this request."""
        respond: Any = sync_to_async(self.get_response, thread_sensitive=True)
        response: HttpResponseBase = await respond(request)
        return response


def application() -> ThreadedHandler:
    """Django, set up, as an ASGI application; it loads the apps."""
    django.setup(set_prefix=False)
    return ThreadedHandler()
