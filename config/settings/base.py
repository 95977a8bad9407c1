"""Production settings: safe as they are; what differs between machines is in the environment.

Required: SECRET_KEY, ALLOWED_HOSTS, DATABASE_URL and REDIS_URL; the secret ones may be given as
NAME_FILE. `dev` and `test` override a few lines.
"""

import sys
from pathlib import Path
from typing import Any

from redis.connection import parse_url

from config.auth.oauth import options as oauth
from config.auth.oidc import options as oidc
from config.auth.second_factor import options as second_factor
from config.observability.logs import logging_config
from config.paths import BASE_DIR, DEFAULT_HOME
from config.settings.contrib import CONTRIB_APPS, contrib_apps
from config.settings.databases import parse_database_url, with_pool
from config.settings.env import (
    env_bool,
    env_choice,
    env_float,
    env_int,
    env_list,
    env_path,
    env_secret,
    env_str,
)
from config.settings.product import product_settings
from config.web.csp import policy
from config.web.origins import origins_of, websocket_origins

HOLDPOINT_HOME = env_path("HOLDPOINT_HOME", DEFAULT_HOME)

DEBUG = False
SECRET_KEY = env_secret("SECRET_KEY")
SECRET_KEY_FALLBACKS = env_list("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS")

# ---------------------------------------------------------------- what this process is for
# web      daphne (config.asgi says so). Requests run in short-lived threads, so each borrows a
#          session from the process's pool and gives it back.
# worker   an RQ SimpleWorker. It runs jobs in one process, one after the other, and never forks, so
#          a connection can be kept. A pool cannot: pool and fork mix sessions, and a worker
#          pool forks when it starts its workers. config.checks refuses that.
# sweeper  one loop, one connection.
# command  any other `manage.py`: opens what it needs, and ends.
HOLDPOINT_ROLE = env_choice("HOLDPOINT_ROLE", "command", ("web", "worker", "sweeper", "command"))

INSTALLED_APPS = [
    # First: it replaces runserver, and does nothing else; to load it takes a quarter of a second.
    *(["daphne"] if "runserver" in sys.argv else []),
    "config.apps.ConfigConfig",
    "config.apps.HoldpointAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "config.web.static_files.StaticFiles",
    "django.contrib.humanize",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_rq",
    "django_htmx",
    "csp",
    "axes",
    "oauth2_provider",
    "graphrag.apps.GraphragConfig",
    "workflows.apps.WorkflowsConfig",
    "reviews.apps.ReviewsConfig",
    *contrib_apps(env_list("HOLDPOINT_CONTRIB", tuple(CONTRIB_APPS))),
]

MIDDLEWARE = [
    "config.web.middleware.RequestContextMiddleware",  # first: every answer has the request's id
    "config.web.middleware.NoStoreMiddleware",
    "config.web.middleware.CompressionMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "config.web.middleware.SlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "config.auth.session_end.SessionEndMiddleware",
    "config.observability.request_log.RequestLogMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",  # answers for a sign-in that was refused
    # Last, because it is sync: Django then runs all of them in the request's thread.  Those behind
    # the last sync one are async, and each goes to the thread and back.
    "config.web.middleware.BackgroundJobsMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": ["django.templatetags.i18n"],
        },
    }
]

# ---------------------------------------------------------------- servers
_KEPT = HOLDPOINT_ROLE in ("worker", "sweeper")
_DATABASE = parse_database_url(
    env_secret("DATABASE_URL"),
    conn_max_age=None if _KEPT else 0,
    transaction_pooling=env_bool("HOLDPOINT_DB_TRANSACTION_POOLING", default=False),
)
_SESSIONS = env_int("HOLDPOINT_DB_POOL_MAX", 16, minimum=0)
if HOLDPOINT_ROLE == "web" and _SESSIONS:
    _DATABASE = with_pool(
        _DATABASE,
        min_size=env_int("HOLDPOINT_DB_POOL_MIN", 2, minimum=0, maximum=_SESSIONS),
        max_size=_SESSIONS,
        wait_seconds=env_float("HOLDPOINT_DB_POOL_WAIT_SECONDS", 5, minimum=0.1),
    )
DATABASES = {"default": _DATABASE}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env_secret("REDIS_URL")
# Jobs contain only ids, as JSON: a pickle in Redis would allow code execution in the workers.
# Results are stored in PostgreSQL. One queue each, so that a job is moved, not popped.
_QUEUE = {
    "URL": REDIS_URL,
    "SERIALIZER": "rq.serializers.JSONSerializer",
    "DEFAULT_TIMEOUT": env_int("HOLDPOINT_JOB_TIMEOUT_SECONDS", 3600, minimum=60),
    "DEFAULT_RESULT_TTL": 0,
}
RQ_QUEUES = {"default": _QUEUE, "ahead": _QUEUE, "low": _QUEUE}
RQ = {"COMMIT_MODE": "auto", "DEFAULT_RESULT_TTL": 0}

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        # A listener blocks until a message arrives; redis-py would time out after a few seconds.
        "CONFIG": {
            "hosts": [{"address": REDIS_URL, "socket_timeout": None}],
            # Redis delivers published messages to listeners of every database number.
            "prefix": f"holdpoint{parse_url(REDIS_URL).get('db', 0)}",  # type: ignore[no-untyped-call]
        },
    }
}

# ---------------------------------------------------------------- people
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
PASSWORD_LOGIN = env_bool("HOLDPOINT_PASSWORD_LOGIN", default=True)
# Sessions of the one end when the other is set.
_BACKENDS = ("config.auth.passwords.NoPasswords", "django.contrib.auth.backends.ModelBackend")
AUTHENTICATION_BACKENDS = ["config.auth.sign_in_limits.SignInLimits", _BACKENDS[PASSWORD_LOGIN]]
# Failed sign-ins are kept by django-axes, and limited as config.auth.sign_in_limits says.
AXES_HANDLER = "config.auth.sign_in_limits.SignInHandler"
AXES_FAILURE_LIMIT = 100  # percent of the nearest limit
AXES_COOLOFF_TIME = "config.auth.sign_in_limits.window_of"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"], "ip_address", "username"]
AXES_LOCKOUT_CALLABLE = "config.auth.sign_in_limits.locked_page"
AXES_CLIENT_IP_CALLABLE = "workflows.common.client_address.address_of"
AXES_USERNAME_CALLABLE = "config.auth.sign_in_limits.account_of"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_SENSITIVE_PARAMETERS = ["username", "ip_address", "csrfmiddlewaretoken", "code", "state"]
AXES_VERBOSE = False
AXES_ENABLE_ADMIN = False  # config.admin shows the alerts, with the action that unlocks
# An issuer of OpenID Connect to sign in with; None, and nothing of it is loaded, unless it is set.
OIDC = oidc.from_environment(passwords=PASSWORD_LOGIN)
if OIDC:
    oidc.add_to(globals(), OIDC)
# Clients of MCP and REST that get their tokens by OAuth.
OAUTH = env_bool("HOLDPOINT_OAUTH", default=True)
OAUTH2_PROVIDER = oauth.options()
# Native clients listen on a loopback address over http; other http addresses are refused.
SILENCED_SYSTEM_CHECKS = ["oauth2_provider.W008"]
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth2_provider.Application"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
# In the database, so that losing Redis logs nobody out.
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = env_int("SESSION_HOURS", 8, minimum=1) * 3600
SESSION_COOKIE_NAME = "__Host-holdpoint_session"
SESSION_COOKIE_SECURE = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_NAME = "__Host-holdpoint_csrf"
CSRF_COOKIE_SECURE = True
CSRF_FAILURE_VIEW = "config.auth.session_end.csrf_failure"
CSRF_TRUSTED_ORIGINS = env_list("CSRF_TRUSTED_ORIGINS")

# ---------------------------------------------------------------- transport and headers
SITE_URL = env_str("HOLDPOINT_SITE_URL", "")
# Full origins (scheme, host, port) whose pages may open a socket here.
ALLOWED_ORIGINS = origins_of(env_list("ALLOWED_ORIGINS"), SITE_URL, ALLOWED_HOSTS, scheme="https")
CONTENT_SECURITY_POLICY = policy(websocket_origins(ALLOWED_ORIGINS))
SECURE_SSL_REDIRECT = env_bool("SECURE_SSL_REDIRECT", default=True)
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = env_int("SECURE_HSTS_SECONDS", 31_536_000, minimum=0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# Believe X-Forwarded-Proto only when a proxy of ours sets it on every request.
if env_bool("HOLDPOINT_BEHIND_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
DATA_UPLOAD_MAX_MEMORY_SIZE = env_int("HOLDPOINT_MAX_BODY_BYTES", 2 * 1024 * 1024, minimum=1024)

# ---------------------------------------------------------------- static files, language, time
STATIC_URL = "static/"
STATIC_ROOT: Path | None = env_path("STATIC_ROOT", HOLDPOINT_HOME / "static")
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.web.static_files.CollectedFiles"},
}
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English")]
USE_I18N = False
FORMAT_MODULE_PATH = ["config.formats"]
TIME_ZONE = "UTC"
USE_TZ = True

# ---------------------------------------------------------------- interfaces
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "workflows.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["workflows.api.parsers.BoundedJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "workflows.api.pagination.CursorPages",
    "DEFAULT_THROTTLE_CLASSES": ["workflows.api.throttling.MinuteThrottle"],
    "URL_FORMAT_OVERRIDE": None,  # what the answer is written in is a matter of Accept
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "workflows.api.problems.problem_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Holdpoint",
    "OAS_VERSION": "3.1.1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "workflows.api.openapi.add_problem_responses",
        "workflows.api.openapi.simplify_any_schema",
        "workflows.api.examples.add_examples",
    ],
    "DESCRIPTION": "Start executions, watch them, and decide what waits for a person.",
    "VERSION": "v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "DecisionEnum": "reviews.models.Decision",
        "ExecutionStatusEnum": "workflows.engine.status.ExecutionStatus",
        "ApprovalStatusEnum": "workflows.models.approvals.ApprovalStatus",
        "RiskEnum": "workflows.models.approvals.ApprovalPolicy.Risk",
        "ToolKindEnum": "graphrag.models.ToolKind",
        "DeliveryStatusEnum": "workflows.models.WebhookDelivery.Status",
        "NoticeKindEnum": "reviews.models.notifications.NoticeKind",
        "BacktestStatusEnum": "reviews.models.backtests.Backtest.Status",
    },
    "SWAGGER_UI_DIST": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# ---------------------------------------------------------------- mail
# Without a server nothing is mailed, and the pages say so.
EMAIL_HOST = env_str("EMAIL_HOST", "")
EMAIL_BACKEND = env_str(
    "EMAIL_BACKEND",
    f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'dummy'}.EmailBackend",
)
EMAIL_PORT = env_int("EMAIL_PORT", 587, minimum=1, maximum=65535)
EMAIL_HOST_USER = env_str("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env_secret("EMAIL_HOST_PASSWORD", "")
EMAIL_USE_SSL = env_bool("EMAIL_USE_SSL", default=False)
EMAIL_USE_TLS = env_bool("EMAIL_USE_TLS", default=not EMAIL_USE_SSL)
# Who is mailed when a limit on sign-ins is reached.
ADMINS = [(address, address) for address in env_list("HOLDPOINT_ADMINS")]
EMAIL_TIMEOUT = env_int("EMAIL_TIMEOUT", 10, minimum=1)
EMAIL_FILE_PATH = str(env_path("EMAIL_FILE_PATH", HOLDPOINT_HOME / "mail"))
DEFAULT_FROM_EMAIL = env_str("DEFAULT_FROM_EMAIL", "holdpoint@localhost")

# ---------------------------------------------------------------- logs and numbers
LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = logging_config(
    level=env_choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR")),
    style=env_choice("LOG_STYLE", "json", ("json", "console")),
)
# Where traces and errors go, if anywhere: see config.observability.telemetry.
OTLP_ENDPOINT = env_str("HOLDPOINT_OTLP_ENDPOINT", "")
SENTRY_DSN = env_secret("HOLDPOINT_SENTRY_DSN", "")
HOLDPOINT = product_settings(home=HOLDPOINT_HOME, site_url=SITE_URL)
# Second factors; nothing of them is loaded unless HOLDPOINT_STEP_UP asks for them.
if HOLDPOINT["step_up"] != "off":
    second_factor.add_to(globals())
