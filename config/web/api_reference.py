"""The API reference with Redoc.

Redoc creates inline `<style>` elements and searches in a worker from a blob, so this page allows
both.  Scripts stay `'self'`, and the page takes no input and shows only the schema.
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
    """Redoc for users who are signed in."""

    template_name = "redoc.html"
    url_name = "schema"
