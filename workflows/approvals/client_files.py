"""The clients and adapters of the approvals API as files, for everybody.

They hold no secret, and a program downloads them before it has a token.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.http import condition, require_safe

_FOLDER: Final = Path(__file__).with_name("client")
_CONTENT_TYPES: Final = {".py": "text/x-python", ".ts": "text/typescript"}
#: An update of the product reaches the programs that download the files within this time.
_MAX_AGE_SECONDS: Final = 300


# One value per process, never invalidated: the files change with the product's version.
@cache
def client_files() -> dict[str, bytes]:
    """Return the contents by name: "holdpoint.py", "adapters/holdpoint_langgraph.py" and so on."""
    paths = [*_FOLDER.glob("*.*"), *_FOLDER.glob("adapters/*.*")]
    return {
        str(path.relative_to(_FOLDER)): path.read_bytes()
        for path in sorted(paths)
        if path.suffix in _CONTENT_TYPES and path.name != "__init__.py"
    }


def _etag(request: HttpRequest, name: str) -> str | None:
    data = client_files().get(name)
    return None if data is None else f'"{hashlib.sha256(data).hexdigest()[:32]}"'


@require_safe
@condition(etag_func=_etag)
def client_file(request: HttpRequest, name: str) -> HttpResponse:
    """Return one file; 404 for a name that is not in the list."""
    data = client_files().get(name)
    if data is None:
        raise Http404
    content_type = _CONTENT_TYPES[Path(name).suffix]
    response = HttpResponse(data, content_type=f"{content_type}; charset=utf-8")
    response["Cache-Control"] = f"public, max-age={_MAX_AGE_SECONDS}"
    return response
