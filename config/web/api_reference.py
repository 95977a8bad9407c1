"""The API reference by Redoc, beside Swagger UI.

Redoc makes its style sheets in the browser, as inline `<style>` elements, and searches in a worker
from a blob.  So this one page allows both.  Scripts stay `'self'` here too, the page takes no input
and shows nothing but our own schema: a style has nothing to reveal and nowhere to send it.
"""

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.utils.decorators import method_decorator
from drf_spectacular.views import SpectacularRedocView


@method_decorator(
    csp_replace({"style-src": [SELF, UNSAFE_INLINE], "worker-src": [SELF, "blob:"]}),
    name="dispatch",
)
class RedocView(SpectacularRedocView):
    """Read only, for whoever is signed in."""

    template_name = "redoc.html"
    url_name = "schema"
