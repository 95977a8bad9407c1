"""The stylesheet of all pages, and the JavaScript modules that a page loads.

A page asks for one stylesheet instead of a file per feature, and names the modules that its modules
import, so that the browser fetches all of them at once.
"""

from __future__ import annotations

import gzip
import posixpath
import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse

#: Files of the stylesheet in their order, from `static/reviews/css/`.
STYLES: Final = (
    "tokens",
    "base",
    "components",
    "overlays",
    "bell",
    "queue",
    "desk",
    "decision",
    "changes",
    "escalation",
    "masks",
    "values",
    "run",
    "fork",
    "records",
    "insights",
    "backtest",
    "webhooks",
    "plans",
    "graph",
)
_IMPORT: Final = re.compile(r'^import [^;"]*"(\./[\w-]+\.js)";', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stylesheet:
    """The text, compressed too, and its digest, which is part of its address."""

    text: str
    compressed: bytes
    digest: str


def stylesheet() -> Stylesheet:
    """Return the stylesheet as the files are now."""
    paths = [_path(f"reviews/css/{name}.css") for name in STYLES]
    return _joined(tuple((path, path.stat().st_mtime_ns) for path in paths))


# Keyed by the files and their times; bounded by 2; an edited file is another key.
@lru_cache(maxsize=2)
def _joined(files: tuple[tuple[Path, int], ...]) -> Stylesheet:
    text = "\n".join(path.read_text(encoding="utf-8") for path, _ in files)
    content = text.encode()
    return Stylesheet(text, gzip.compress(content, mtime=0), sha256(content).hexdigest()[:16])


def stylesheet_view(request: HttpRequest, digest: str) -> HttpResponse:
    """Serve the stylesheet; browsers keep it for ever under its own digest only.

    During an upgrade a page of the other version may ask for its stylesheet here.
    """
    found = stylesheet()
    small = "gzip" in request.headers.get("Accept-Encoding", "")
    body = found.compressed if small else found.text
    response = HttpResponse(body, content_type="text/css; charset=utf-8")
    if small:  # once, not for each request: the first paint waits for the stylesheet
        response["Content-Encoding"] = "gzip"
    response["Vary"] = "Accept-Encoding"
    kept = "public, max-age=31536000, immutable" if digest == found.digest else "no-store"
    response["Cache-Control"] = kept
    return response


def imported_modules(name: str) -> tuple[str, ...]:
    """Return the modules that a module imports, and those that they import, by static name."""
    seen: dict[str, None] = {}
    pending = [name]
    while pending:
        current = pending.pop()
        path = _path(current)
        for each in _imports(path, path.stat().st_mtime_ns):
            imported = posixpath.join(posixpath.dirname(current), each[2:])
            if imported not in seen and imported != name:
                seen[imported] = None
                pending.append(imported)
    return tuple(seen)


# Keyed by the file and its time; bounded by 256; an edited file is another key.
@lru_cache(maxsize=256)
def _imports(path: Path, changed: int) -> tuple[str, ...]:
    return tuple(_IMPORT.findall(path.read_text(encoding="utf-8")))


# Keyed by the static name; bounded by 256; files do not move while the process runs.
@lru_cache(maxsize=256)
def _path(name: str) -> Path:
    found = finders.find(name)
    if found is None:
        raise FileNotFoundError(name)
    return Path(found)
