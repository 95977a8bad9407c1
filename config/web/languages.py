"""Which language a page is in, and the words of its scripts.

Pages follow the person: their choice (a cookie), else what their browser asks for. What programs
read is always English, so that a code, a refusal or a record says the same to everybody.
"""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.views.i18n import JavaScriptCatalog

#: Below these paths programs read.
FOR_PROGRAMS: Final = ("/api/", "/livez", "/readyz", "/metrics", "/words/", "/history/export/")
_A_YEAR: Final = 31_536_000


class LanguageMiddleware:
    """Django's LocaleMiddleware without addresses per language, and without a trace.

    The language is given back when the answer is made: nothing that a thread does later, for
    somebody else, finds it still switched on.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith(FOR_PROGRAMS):
            with translation.override(settings.LANGUAGE_CODE):
                return self.get_response(request)
        language = translation.get_language_from_request(request)
        with translation.override(language):
            response = self.get_response(request)
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
        response.setdefault("Content-Language", language)
        return response


@cache
def words_version() -> str:
    """Changes with the words of the scripts, so that browsers may keep them for good."""
    digest = hashlib.sha256()
    for folder in settings.LOCALE_PATHS:
        for path in sorted(Path(folder).glob("*/LC_MESSAGES/djangojs.mo")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class ScriptWords(JavaScriptCatalog):
    """`gettext`, `ngettext` and `interpolate` for our scripts, in one language."""

    packages = ["config"]

    def get(
        self, request: HttpRequest, *args: object, language: str, version: str, **kwargs: object
    ) -> HttpResponse:
        """404 for a language that is not ours; an old version gets what there is now, unkept."""
        if language not in dict(settings.LANGUAGES):
            raise Http404
        with translation.override(language):
            response = super().get(request, *args, **kwargs)
        kept = f"public, max-age={_A_YEAR}, immutable"
        response["Cache-Control"] = kept if version == words_version() else "no-cache"
        return response
