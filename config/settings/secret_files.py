"""The secrets of a home folder, SECRET_KEY and the audit key: made once, readable by its owner."""

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

BYTES = 48


def home_secret(home: Path, name: str = "secret_key") -> str:
    """The key in the file `name` of the home, made where there is none.

    Two processes that start at once end up with the same one.
    """
    path = home / name
    home.mkdir(parents=True, exist_ok=True)
    half = home / f".{name}.{secrets.token_hex(8)}"
    if not path.exists():
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(BYTES))
        try:
            path.hardlink_to(half)  # fails where another process was first: its key is in force
        except FileExistsError:
            pass
        finally:
            half.unlink()
    key = path.read_text(encoding="ascii").strip()
    if len(key) < BYTES:
        raise ImproperlyConfigured(f"{path} is damaged; remove it and a new key is made.")
    return key
