"""Production settings: safe as they are; what differs between machines is in the environment.

Required: SECRET_KEY, ALLOWED_HOSTS, DATABASE_URL and REDIS_URL; the secret ones may be given as
NAME_FILE. `dev` and `test` override a few lines.
"""

import sys
from pathlib import Path
from typing import Any

import django_stubs_ext
from redis.connection import parse_url

from config.auth.oauth import options as oauth
from config.auth.oidc import options as oidc
from config.auth.second_factor import options as second_factor
from config.observability.logs import logging_config
from config.paths import BASE_DIR
from config.settings.contrib import contrib_apps
from config.settings.databases import parse_database_url, with_pool
from config.settings.product import product_settings
from config.settings.topics import (
    Database,
    Installation,
    Keys,
    Logs,
    Mail,
    OpenId,
    Redis,
    SignIn,
    Web,
)
from config.web.csp import policy
from config.web.origins import origins_of, websocket_origins

# Generic classes of Django, such as `ModelAdmin[Hold]`, can be bases.
django_stubs_ext.monkeypatch()

_INSTALLATION = Installation.read()
_KEYS = Keys.read()
_WEB = Web.read()
HOLDPOINT_HOME = _INSTALLATION.home

DEBUG = False
SECRET_KEY = _KEYS.secret_key
SECRET_KEY_FALLBACKS = _KEYS.secret_key_fallbacks
ALLOWED_HOSTS = _WEB.allowed_hosts

# ---------------------------------------------------------------- what this process is for
# web      daphne (config.asgi says so). Requests run in short-lived threads, so each borrows a
#          session from the process's pool and gives it back.
# worker   an RQ SimpleWorker. It runs jobs in one process, one after the other, and never forks, so
#          a connection can be kept. A pool cannot: pool and fork mix sessions, and a worker
#          pool forks when it starts its workers. config.checks refuses that.
# sweeper  one loop, one connection.
# command  any other `manage.py`: opens what it needs, and ends.
HOLDPOINT_ROLE = _INSTALLATION.role

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
    "pgtrigger",
    "graphrag.apps.GraphragConfig",
    "workflows.apps.WorkflowsConfig",
    "reviews.apps.ReviewsConfig",
    *contrib_apps(_INSTALLATION.contrib),
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
_SERVER = Database.read()
_DATABASE = parse_database_url(
    _SERVER.database_url,
    conn_max_age=None if _KEPT else 0,
    transaction_pooling=_SERVER.db_transaction_pooling,
)
if HOLDPOINT_ROLE == "web" and _SERVER.db_pool_max:
    _DATABASE = with_pool(
        _DATABASE,
        min_size=min(2, _SERVER.db_pool_max),
        max_size=_SERVER.db_pool_max,
        wait_seconds=5.0,
    )
DATABASES = {"default": _DATABASE}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = Redis.read().redis_url
# Jobs contain only ids, as JSON: a pickle in Redis would allow code execution in the workers.
# Results are stored in PostgreSQL. One queue each, so that a job is moved, not popped.
_QUEUE = {
    "URL": REDIS_URL,
    "SERIALIZER": "rq.serializers.JSONSerializer",
    "DEFAULT_TIMEOUT": 3600,
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
_OPEN_ID = OpenId.read()
PASSWORD_LOGIN = _OPEN_ID.password_login
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
OIDC = oidc.options_of(_OPEN_ID)
if OIDC:
    oidc.add_to(globals(), OIDC)
# Clients of MCP and REST that get their tokens by OAuth.
OAUTH = _OPEN_ID.oauth
OAUTH2_PROVIDER = oauth.options()
# Native clients listen on a loopback address over http; other http addresses are refused.
SILENCED_SYSTEM_CHECKS = ["oauth2_provider.W008"]
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth2_provider.Application"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
# In the database, so that losing Redis logs nobody out.
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = _WEB.session_hours * 3600
SESSION_COOKIE_NAME = "__Host-holdpoint_session"
SESSION_COOKIE_SECURE = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_NAME = "__Host-holdpoint_csrf"
CSRF_COOKIE_SECURE = True
CSRF_FAILURE_VIEW = "config.auth.session_end.csrf_failure"
CSRF_TRUSTED_ORIGINS = _WEB.csrf_trusted_origins

# ---------------------------------------------------------------- transport and headers
SITE_URL = _INSTALLATION.site_url
# Full origins (scheme, host, port) whose pages may open a socket here.
ALLOWED_ORIGINS = origins_of(_WEB.allowed_origins, SITE_URL, ALLOWED_HOSTS, scheme="https")
CONTENT_SECURITY_POLICY = policy(websocket_origins(ALLOWED_ORIGINS))
SECURE_SSL_REDIRECT = _WEB.secure_ssl_redirect
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = _WEB.secure_hsts_seconds
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# Believe X-Forwarded-Proto only when a proxy of ours sets it on every request.
if SignIn.read().behind_proxy:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
DATA_UPLOAD_MAX_MEMORY_SIZE = _WEB.max_body_bytes

# ---------------------------------------------------------------- static files, language, time
STATIC_URL = "static/"
STATIC_ROOT: Path | None = _INSTALLATION.static_root or HOLDPOINT_HOME / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "config.web.static_files.CollectedFiles"},
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
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
        "ExecutionStatusEnum": "workflows.engine.protocol.status.ExecutionStatus",
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
_MAIL = Mail.read()
EMAIL_HOST = _MAIL.email_host
EMAIL_BACKEND = _MAIL.email_backend or (
    f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'dummy'}.EmailBackend"
)
EMAIL_PORT = _MAIL.email_port
EMAIL_HOST_USER = _MAIL.email_host_user
EMAIL_HOST_PASSWORD = _MAIL.email_host_password
EMAIL_USE_SSL = _MAIL.email_use_ssl
EMAIL_USE_TLS = not EMAIL_USE_SSL if _MAIL.email_use_tls is None else _MAIL.email_use_tls
# Who is mailed when a limit on sign-ins is reached.
ADMINS = [(address, address) for address in _MAIL.admins]
EMAIL_TIMEOUT = 10
EMAIL_FILE_PATH = str(HOLDPOINT_HOME / "mail")
DEFAULT_FROM_EMAIL = _MAIL.default_from_email

# ---------------------------------------------------------------- logs and numbers
_LOGS = Logs.read()
LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = logging_config(
    level=_LOGS.log_level,
    style=_LOGS.log_style,
)
# Where traces and errors go, if anywhere: see config.observability.telemetry.
OTLP_ENDPOINT = _LOGS.otlp_endpoint
SENTRY_DSN = _LOGS.sentry_dsn
HOLDPOINT = product_settings(home=HOLDPOINT_HOME, site_url=SITE_URL)
# Second factors; nothing of them is loaded unless HOLDPOINT_STEP_UP asks for them.
if HOLDPOINT["step_up"] != "off":
    second_factor.add_to(globals())
