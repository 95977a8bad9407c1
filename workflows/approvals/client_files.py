"""The clients and adapters of the approvals API as files, for everybody.

They hold no secret, and a program downloads them before it has a token.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.views import View

_FOLDER: Final = Path(__file__).with_name("client")
_CONTENT_TYPES: Final = {".py": "text/x-python", ".ts": "text/typescript"}
#: An update of the product reaches the programs that download the files within this time.
_MAX_AGE_SECONDS: Final = 300


# One value per process and folder, never invalidated: the files change with the product's version.
@cache
def client_files(folder: Path = _FOLDER) -> dict[str, bytes]:
    """Return the contents by name: "holdpoint.py", "adapters/holdpoint_langgraph.py" and so on."""
    paths = [*folder.glob("*.*"), *folder.glob("adapters/*.*")]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(paths)
        if path.suffix in _CONTENT_TYPES and path.name != "__init__.py"
    }


class ClientFileView(View):
    """One file of a folder; 404 for a name that it does not have."""

    folder = _FOLDER

    def get(self, request: HttpRequest, name: str) -> HttpResponseBase:
        data = client_files(self.folder).get(name)
        if data is None:
            raise Http404
        etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        content_type = _CONTENT_TYPES[Path(name).suffix]
        response = HttpResponse(data, content_type=f"{content_type}; charset=utf-8")
        response["Cache-Control"] = f"public, max-age={_MAX_AGE_SECONDS}"
        response["ETag"] = etag
        return get_conditional_response(request, etag=etag, response=response) or response
