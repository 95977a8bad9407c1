"""Settings of the tests: servers only for this run, in a folder named after the process.

Only the addresses are worked out here; `tests/conftest.py` starts the servers when a test first
needs one. With DATABASE_URL and REDIS_URL set, those servers are used and none is started.
"""

import os
import tempfile
from pathlib import Path

from config.devserver.embedded import Layout

_HOME = Path(tempfile.gettempdir()) / f"holdpoint-test-{os.getpid()}"
os.environ.setdefault("HOLDPOINT_TEST_HOME", str(_HOME))  # xdist workers inherit it
_SERVERS = Layout.of(os.environ["HOLDPOINT_TEST_HOME"]).urls
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")

os.environ.setdefault("SECRET_KEY", "only-for-the-tests-" + "x" * 50)
os.environ.setdefault("HOLDPOINT_AUDIT_KEY", "only-for-the-tests-" + "y" * 50)
os.environ.setdefault("ALLOWED_HOSTS", "localhost,127.0.0.1,testserver")
os.environ.setdefault("HOLDPOINT_SITE_URL", "http://testserver")
os.environ.setdefault("HOLDPOINT_HOME", os.environ["HOLDPOINT_TEST_HOME"])
os.environ.setdefault("DATABASE_URL", _SERVERS.superuser)
if os.environ.get("REDIS_URL", _SERVERS.redis).startswith(_SERVERS.redis.removesuffix("0")):
    os.environ["REDIS_URL"] = f"{_SERVERS.redis.removesuffix('0')}{_WORKER}"
# Tests reach servers of their own on this machine, and may run as root in a container.
os.environ.setdefault("HOLDPOINT_LOOPBACK_TARGETS", "*")
os.environ.setdefault("HOLDPOINT_SANDBOX_ALLOW_ROOT", "1")
# A decision on a page takes effect at once, as over REST; tests of undo say for how long it rests.
os.environ.setdefault("HOLDPOINT_UNDO_SECONDS", "0")
os.environ.setdefault("LOG_STYLE", "console")
os.environ.setdefault("LOG_LEVEL", "WARNING")

from config.settings.base import *  # noqa: E402, F403
from config.settings.base import ALLOWED_HOSTS, INSTALLED_APPS, SITE_URL, STORAGES  # noqa: E402
from config.web.csp import policy  # noqa: E402
from config.web.origins import origins_of, websocket_origins  # noqa: E402

# Its `flush` command empties the database between tests.
INSTALLED_APPS = [*INSTALLED_APPS, "tests.support"]
ALLOWED_ORIGINS = origins_of([], SITE_URL, ALLOWED_HOSTS, scheme="http")
CONTENT_SECURITY_POLICY = policy(websocket_origins(ALLOWED_ORIGINS))
SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 0
SESSION_COOKIE_NAME = "holdpoint_session"
SESSION_COOKIE_SECURE = False
CSRF_COOKIE_NAME = "holdpoint_csrf"
CSRF_COOKIE_SECURE = False
# Argon2 is slow on purpose; the tests log in thousands of times.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    **STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
STATIC_ROOT = None  # served from where they are, without collectstatic
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True
