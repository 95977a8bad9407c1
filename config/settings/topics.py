"""All settings of the environment, one class per topic.

Each field has its type, range, default and one sentence; `manage.py settings_doc` writes
docs/settings.md from them. The variable is HOLDPOINT_ and the name of the field, unless `env` says
another.
"""

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BeforeValidator, field_validator, model_validator

from config.paths import BASE_DIR, DEFAULT_HOME
from config.settings.contrib import CONTRIB_APPS
from config.settings.topic import Folder, Hours, JsonObject, Topic, Words, setting

AUDIT_KEY_LENGTH = 32
PUBLIC_KEY_BYTES = 32
PERMISSION_SETS = ("minimal", "readonly", "filesystem", "network-api", "mcp-standard", "trusted")
#: The largest permission set that members of a group may grant; `*` is every other group.
GRANT_CEILINGS = {"reviewer": "mcp-standard", "admin": "trusted", "*": "mcp-standard"}
#: The largest permission set that members of a group may choose for a task in a plan.
START_CEILINGS = {"admin": "trusted", "operator": "trusted", "*": "mcp-standard"}
#: People do not approve plans that they started.
POLICY_FLOOR = {"four_eyes": True}
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _ceilings(value: Any) -> Any:
    """Parse `GROUP:SET` entries."""
    if not isinstance(value, str):
        return value
    table: dict[str, str] = {}
    for entry in (part.strip() for part in value.split(",")):
        group, _, ceiling = entry.partition(":")
        if not group or ceiling not in PERMISSION_SETS:
            known = ", ".join(PERMISSION_SETS)
            raise ValueError(f"{entry!r} is not GROUP:SET, the set one of {known}")
        table[group] = ceiling
    return table


def _landlock(value: str) -> str:
    """Return when code requires Landlock: "auto" (where the kernel has it), "on" or "off"."""
    word = value.lower()
    if word == "auto":
        return word
    if word in ("1", "true", "yes", "on"):
        return "on"
    if word in ("0", "false", "no", "off"):
        return "off"
    raise ValueError("is none of auto, 1 and 0")


Ceilings = Annotated[Mapping[str, str], BeforeValidator(_ceilings)]
Landlock = Annotated[Literal["auto", "on", "off"], BeforeValidator(_landlock)]


class Installation(Topic):
    """The installation."""

    home: Folder = setting(DEFAULT_HOME, "Folder of this installation's files.", shown="`var`")
    role: Literal["web", "worker", "sweeper", "command"] = setting(
        "command",
        "`web`, `worker`, `sweeper` or `command`.",
        shown="`web` in daphne, otherwise `command`",
    )
    site_url: str = setting("", "Address used in links; allowed origin of sockets.")
    static_root: Folder | None = setting(
        None,
        "Target folder of `collectstatic`.",
        env="STATIC_ROOT",
        shown="`HOLDPOINT_HOME/static`",
    )
    contrib: Words = setting(
        list(CONTRIB_APPS),
        "[Contrib apps](extend.md) that are installed; `none` for no app.",
        shown="all",
    )
    debug: bool = setting(False, "Django's debug mode, for development only.", env="DEBUG")


class Keys(Topic):
    """Keys."""

    secret_key: str = setting(
        ..., "Signs sessions; encrypts stored secrets.", env="SECRET_KEY", secret=True
    )
    secret_key_fallbacks: Words = setting([], "List of earlier keys.", env="SECRET_KEY_FALLBACKS")


class MakeRun(Topic):
    """`make run`."""

    bind: str = setting("127.0.0.1", "Address on which `make run` listens.")
    port: int = setting(8000, "Port of `make run`.", ge=1, le=65535)


class Database(Topic):
    """PostgreSQL."""

    database_url: str = setting(..., "PostgreSQL.", env="DATABASE_URL", secret=True)
    app_database_url: str = setting(
        "", "The product's role, for `config.database.roles` only.", secret=True
    )
    db_pool_max: int = setting(
        16, "Largest number of database sessions of a web process; 0: one per request.", ge=0
    )
    db_transaction_pooling: bool = setting(
        False, "1: `DATABASE_URL` is the address of PgBouncer in transaction mode."
    )


class Redis(Topic):
    """Redis."""

    redis_url: str = setting(..., "Redis.", env="REDIS_URL", secret=True)


class Web(Topic):
    """Web and sessions."""

    allowed_hosts: Words = setting([], "List of host names.", env="ALLOWED_HOSTS", shown="required")
    allowed_origins: Words = setting(
        [],
        "List of additional origins of sockets and `/mcp`.",
        env="ALLOWED_ORIGINS",
        shown="from `HOLDPOINT_SITE_URL` and `ALLOWED_HOSTS`",
    )
    csrf_trusted_origins: Words = setting(
        [], "List of additional origins for forms.", env="CSRF_TRUSTED_ORIGINS"
    )
    secure_ssl_redirect: bool = setting(True, "Redirect http to https.", env="SECURE_SSL_REDIRECT")
    secure_hsts_seconds: int = setting(
        31536000, "HSTS lifetime, seconds.", env="SECURE_HSTS_SECONDS", ge=0
    )
    session_hours: int = setting(8, "Session lifetime, hours.", env="SESSION_HOURS", ge=1)
    max_body_bytes: int = setting(
        2 * 1024 * 1024,
        "Largest request body below `/api/`, `/access/`, `/review/`, `/plan/`, `/workflows/edit/` and `/admin/`, bytes; 1 MiB at `/mcp` and below `/mcp/gate/`; 64 KiB elsewhere.",
        ge=1024,
    )


class OpenId(Topic):
    """OpenID Connect and OAuth."""

    password_login: bool = setting(True, "0: OpenID Connect only.")
    oidc_issuer: str = setting(
        "", "Enables [OpenID Connect](howto/sign-in-with-oidc.md) (extra `oidc`)."
    )
    oidc_client_id: str = setting("", "Client id at the issuer.")
    oidc_client_secret: str = setting("", "Client secret at the issuer.", secret=True)
    oidc_name: str = setting("single sign-on", "Label of the sign-in button.")
    oidc_scopes: Words = setting(["openid", "profile", "email"], "List of requested scopes.")
    oidc_groups: Words = setting([], "List of `THEIRS:OURS` group mappings.")
    oidc_groups_claim: str = setting("groups", "Claim that lists the groups.")
    oidc_email_domains: Words = setting(
        [], "List of domains of verified addresses that may sign in; none: all."
    )
    oauth: bool = setting(
        True, "[OAuth](howto/connect-an-agent.md#oauth) for clients of MCP and REST."
    )


class Mail(Topic):
    """E-mail."""

    email_host: str = setting("", "Mail server; none: no mail is sent.", env="EMAIL_HOST")
    email_port: int = setting(587, "Its port.", env="EMAIL_PORT", ge=1, le=65535)
    email_host_user: str = setting("", "Its account.", env="EMAIL_HOST_USER")
    email_host_password: str = setting("", "Its password.", env="EMAIL_HOST_PASSWORD", secret=True)
    email_use_tls: bool | None = setting(
        None, "Use STARTTLS.", env="EMAIL_USE_TLS", shown="1, unless `EMAIL_USE_SSL` is on"
    )
    email_use_ssl: bool = setting(False, "Use TLS from the start.", env="EMAIL_USE_SSL")
    default_from_email: str = setting(
        "holdpoint@localhost", "Sender of mails.", env="DEFAULT_FROM_EMAIL"
    )
    email_backend: str = setting(
        "",
        "Django's mail backend.",
        env="EMAIL_BACKEND",
        shown="SMTP with `EMAIL_HOST`; files in `make run`",
    )
    admins: Words = setting([], "List of e-mail addresses that are notified of locks.")


class Logs(Topic):
    """Logs, traces and errors."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = setting(
        "INFO", "`DEBUG`, `INFO`, `WARNING` or `ERROR`.", env="LOG_LEVEL"
    )
    log_style: Literal["json", "console"] = setting(
        "json", "`json` or `console`.", env="LOG_STYLE", shown="`json` (`console` in `make run`)"
    )
    otlp_endpoint: str = setting("", "OpenTelemetry collector (extra `otel`).")
    sentry_dsn: str = setting("", "Sentry (extra `sentry`).", secret=True)


class SignIn(Topic):
    """Sign-in."""

    behind_proxy: bool = setting(
        False, "Trust `X-Forwarded-Proto` and the last entry of `X-Forwarded-For`."
    )
    sign_in_failures: int = setting(5, "Failures of an account from one address.", ge=1)
    sign_in_failures_per_address: int = setting(50, "Failures of an address.", ge=1)
    sign_in_failures_per_account: int = setting(
        100, "Failures of an account from all addresses.", ge=1
    )
    unknown_tokens_per_address: int = setting(50, "Unknown API tokens from one address.", ge=1)
    oauth_registrations_per_hour: int = setting(
        60,
        "Clients that may register themselves in an hour, together; 0 leaves registration to admins.",
        ge=0,
    )
    oauth_registrations_per_address: int = setting(
        20,
        "Registrations and fetches of metadata documents that one address may cause in an hour, failed ones too.",
        ge=0,
    )
    step_up: Literal["off", "high_risk", "all"] = setting(
        "off",
        "Approvals that need a [code](operations.md#second-factors): `off`, `high_risk` or `all`.",
    )
    step_up_seconds: int = setting(600, "Validity of an entered code, seconds.", ge=30)


class Limits(Topic):
    """Limits of a token or person."""

    requests_per_minute: int = setting(
        3000, "Requests of a token or person per minute; 0: unlimited.", ge=0
    )
    starts_per_minute: int = setting(
        600, "Started runs of a token or person per minute; 0: unlimited.", ge=0
    )
    decisions_per_minute: int = setting(
        300,
        "Decisions and commands of a token or person per minute, and as many of a person by links and in Slack; 0: unlimited.",
        ge=0,
    )
    connections_each: int = setting(
        50,
        "Open streams, sockets and waiting calls of a token or person per web process; 0: unlimited.",
        ge=0,
    )


class Execution(Topic):
    """Execution."""

    workers: int = setting(2, "Worker processes of one `run_workers`.", ge=1, le=256)
    lease_seconds: int = setting(30, "A worker's lease on an execution, seconds.", ge=2)
    commit_window_ms: int = setting(
        50, "Results within this window are recorded together, milliseconds.", ge=0, le=10000
    )
    lost_claims_limit: int = setting(
        3,
        "Consecutive lost workers after which a run fails, or learning from it is abandoned; 0: unlimited.",
        ge=0,
    )
    checkpoints_kept: int = setting(
        5, "Checkpoints kept per execution; 0: none, so that new executions cannot be forked.", ge=0
    )
    conversation_messages: int = setting(
        200,
        "Newest messages of a conversation that an agent gets and a review shows; all of them stay in the journal and in `/messages/`.",
        ge=1,
    )
    approve_by_timeout: bool = setting(
        False, "An agent may ask that a timeout approves an action that no approval policy covers."
    )
    max_replans: int = setting(3, "Replans per execution.", ge=0)
    max_failed_replans: int = setting(
        10,
        "Replans per execution that may end without a result; the next one is refused (409, `replan_limit`).",
        ge=1,
    )
    policy_floor: JsonObject = setting(
        POLICY_FLOOR,
        "JSON; the policy of plans without a workflow. A run may only tighten its top-level fields; loosening needs the permission `loosen_policy`. The page *Workflows* shows it.",
    )
    sweep_seconds: float = setting(3.0, "Interval of the sweeper's rounds, seconds.", ge=0.1)
    task_timeout_seconds: int = setting(300, "Time limit of a task that sets none, seconds.", ge=1)


class Speculation(Topic):
    """Speculation."""

    speculation_window: int = setting(
        20,
        "Newest decisions about speculative results of a workflow that count for its hit rate.",
        ge=1,
        le=1000,
    )
    speculation_explore: float = setting(
        0.1,
        "Share of holds (0 to 1) at which one result is computed whatever the hit rate.",
        ge=0,
        le=1,
    )
    speculation_memory_seconds: int = setting(
        86400, "Period for which hits and misses count, seconds.", ge=1
    )


class Reviews(Topic):
    """Reviews."""

    undo_seconds: float = setting(
        5.0,
        "Undo period of a decision on a page, seconds (0 to 600); a workflow's `undo_seconds` has precedence.",
        ge=0,
        le=600,
    )
    page_size: int = setting(50, "Rows of a page.", ge=1, le=500)
    answer_link_hours: int = setting(
        0,
        "Validity of [links that decide without a sign-in](operations.md#answer-links), hours (up to 168); 0 sends none.",
        ge=0,
        le=168,
    )
    retention_hours: Hours = setting(
        None,
        "Hours (UTC) in which [retention](operations.md#retention) erases runs, such as `22-6`.",
        shown="all",
    )


class AuditLog(Topic):
    """Audit log."""

    audit_key: str = setting(
        "",
        "[signs records, exports and heads](howto/check-the-audit-log.md); at least 32 characters.",
        secret=True,
        shown="none (`make run`: `HOLDPOINT_HOME/audit_key`)",
    )
    audit_retired_keys: Words = setting([], "List of earlier public keys.")
    audit_heads_file: Folder | None = setting(
        None, "File to which signed heads are appended.", shown="`HOLDPOINT_HOME/audit-heads.jsonl`"
    )
    audit_heads_log: bool = setting(False, "Write heads to the log `holdpoint.audit.heads`.")

    @field_validator("audit_key")
    @classmethod
    def _long_enough(cls, key: str) -> str:
        if key and len(key) < AUDIT_KEY_LENGTH:
            raise ValueError(f"must have at least {AUDIT_KEY_LENGTH} characters")
        return key

    @field_validator("audit_retired_keys")
    @classmethod
    def _public_keys(cls, texts: list[str]) -> list[str]:
        for text in texts:
            if not _is_public_key(text):
                raise ValueError(f"{text!r} is not a public key of 32 bytes in base64")
        return texts


def _is_public_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == PUBLIC_KEY_BYTES
    except ValueError:
        return False


class SecurityEvents(Topic):
    """Security events."""

    security_event_keep_days: int = setting(
        90,
        "Retention of [security events](security/events.md), days; the database deletes none before 30.",
        ge=30,
    )


class Tools(Topic):
    """Tools and MCP."""

    tool_modules: Words = setting([], "List of Python modules with your own tools.")
    file_root: Folder | None = setting(
        None, "Folder of the files of runs, `runs/<run>/` each.", shown="`HOLDPOINT_HOME/files`"
    )
    tool_user: str = setting(
        "",
        "Account of MCP servers over stdio, for workers that run as root; otherwise they have the product's.",
    )
    http_allow_hosts: Words = setting([], "List of private hosts for `http_request`, as host:port.")
    loopback_targets: Words = setting(
        [],
        "List of services on the worker's machine that a permission may reach, as host:port; `*`: any.",
        shown="none (its own page in `make run`)",
    )
    catalogue_seconds: float = setting(
        60.0, "Interval of the synchronization with MCP servers, seconds.", ge=1
    )
    gate_wait_seconds: float = setting(
        50.0,
        "Time that a held call of an MCP gate waits for a decision, seconds (0 to 3600).",
        ge=0,
        le=3600,
    )
    gate_call_seconds: float = setting(
        120.0,
        "Time limit of a call that an MCP gate sends to a server, and of people to answer what the server asks during it, seconds.",
        ge=1,
        le=3600,
    )
    gate_keep_bytes: int = setting(
        65536,
        "Largest arguments, and largest answer, of a call of an MCP gate that are kept for audits, bytes (up to 1 MiB); larger ones are kept as digests, and with 0 all.",
        ge=0,
        le=1048576,
    )


class RemoteRunners(Topic):
    """Remote runners."""

    dask_scheduler: str = setting(
        "",
        'Address of a Dask scheduler for tasks with `"runner": "dask"`: `tls://host:port`, or `tcp://` on this machine; see [remote runners](howto/remote-runners.md).',
    )
    dask_tls_ca: str = setting("", "File of the CA for a scheduler with `tls://`.")
    dask_tls_cert: str = setting("", "File of Holdpoint's certificate for it.")
    dask_tls_key: str = setting("", "File of the certificate's key.")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        parts = urlsplit(self.dask_scheduler)
        if self.dask_scheduler and parts.scheme not in ("tcp", "tls"):
            raise ValueError("HOLDPOINT_DASK_SCHEDULER must start with tcp:// or tls://.")
        if parts.scheme == "tcp" and parts.hostname not in LOOPBACK:
            # Anybody who reaches a Dask scheduler without TLS runs code on it and reads the inputs.
            raise ValueError(
                "HOLDPOINT_DASK_SCHEDULER must start with tls:// unless it is on this machine."
            )
        files = (self.dask_tls_ca, self.dask_tls_cert, self.dask_tls_key)
        if parts.scheme == "tls" and not all(files):
            raise ValueError(
                "HOLDPOINT_DASK_SCHEDULER with tls:// needs HOLDPOINT_DASK_TLS_CA,"
                " HOLDPOINT_DASK_TLS_CERT and HOLDPOINT_DASK_TLS_KEY."
            )
        return self


class Sandbox(Topic):
    """Sandbox and permissions."""

    sandbox_root: Folder | None = setting(
        None, "Parent folder of the programs' working folders.", shown="`HOLDPOINT_HOME/sandbox`"
    )
    sandbox_memory_mb: int = setting(
        128, "Memory of a program beside its runtime, MB.", ge=16, le=8192
    )
    sandbox_require_landlock: Landlock = setting(
        "auto",
        "`auto`: refuse code when the kernel has Landlock but this process may not use it; 1: refuse code without Landlock; 0: run without it, also MCP servers over stdio, which otherwise need Landlock.",
    )
    sandbox_allow_root: bool = setting(
        False, "Run code in a process of root.", shown="0 (1 in `make run`)"
    )
    permission_sets: Words = setting(
        list(PERMISSION_SETS), "List of sets that suggested plans may use."
    )
    grant_ceilings: Ceilings = setting(
        GRANT_CEILINGS,
        "List of GROUP:SET; the widest set that members of a group may grant.",
        shown="`reviewer:mcp-standard,admin:trusted,*:mcp-standard`",
    )
    start_ceilings: Ceilings = setting(
        START_CEILINGS,
        "List of GROUP:SET; the widest set that members of a group may choose in a plan.",
        shown="`admin:trusted,operator:trusted,*:mcp-standard`",
    )


class ToolGraph(Topic):
    """Tool graph."""

    embedder: str = setting(
        "hashing",
        "Or `semantic` (extra `semantic`), `sentence-transformers:<model>`, `openai:<base url>`.",
    )
    embedder_model: str = setting("text-embedding-3-small", "Model of an `openai:` embedder.")
    embedder_api_key: str = setting("", "Its API key.", secret=True)
    embedder_query_prefix: str = setting(
        "", "Text that its model expects before a query, such as `query: `."
    )
    embedder_document_prefix: str = setting(
        "", "Text that its model expects before the text of a tool, such as `passage: `."
    )
    suggest_threshold: float = setting(
        0.3,
        "Match (0 to 1) below which a step gets no task; half of it suffices for a tool of a server that the text or the task before names.",
        ge=0,
        le=1,
    )
    suggest_max_tasks: int = setting(8, "Tasks of a suggested plan.", ge=1)
    replan_max_tasks: int = setting(3, "Tasks that a replan adds.", ge=1)


class LanguageModel(Topic):
    """Language model."""

    llm_model: str = setting(
        "", "Model of the language model agent, and of plans and replans from words (extra `llm`)."
    )
    llm_base_url: str = setting("", "Its server.")
    llm_api_key: str = setting("", "Its API key.", secret=True)


class Notifications(Topic):
    """Notifications."""

    notice_gather_seconds: float = setting(
        10.0, "Notifications within this period are sent as one message, seconds.", ge=0
    )
    notice_pause_seconds: float = setting(
        60.0, "Minimum time between two messages to one person or chat, seconds.", ge=0
    )
    notice_backoff_seconds: float = setting(
        5.0, "First wait after a failure, seconds; doubles up to an hour.", ge=0
    )
    notice_max_attempts: int = setting(12, "Attempts per message.", ge=1)
    slack_api_url: str = setting(
        "https://slack.com/api/",
        "Base address of [Slack's](howto/answer-from-slack.md) Web API.",
    )


class Webhooks(Topic):
    """Webhooks."""

    webhook_allow_hosts: Words = setting([], "List of private receivers, as host:port.")
    webhook_allow_loopback: bool = setting(
        False, "Allow receivers on this machine.", shown="0 (1 in `make run`)"
    )
    webhook_timeout_seconds: float = setting(
        10.0, "Time limit of an attempt, seconds.", ge=0.5, le=60
    )
    webhook_concurrency: int = setting(
        32, "Concurrent attempts of a sender; 0: no sender in this process.", ge=0, le=256
    )
    webhook_backoff_seconds: float = setting(1.0, "First wait after a failure, seconds.", ge=0)
    webhook_max_backoff_seconds: float = setting(
        3600.0, "Longest wait after a failure, seconds.", ge=0
    )
    webhook_park_after: int = setting(
        20, "Consecutive failures after which an endpoint is parked.", ge=1
    )
    webhook_max_attempts: int = setting(25, "Attempts per message.", ge=1)
    webhook_rotation_seconds: int = setting(
        86400, "Period in which the old secret signs too, seconds.", ge=0
    )
    webhook_max_endpoints: int = setting(20, "Endpoints per person.", ge=1)
    webhook_poll_seconds: float = setting(
        0.5,
        "Shortest interval between two reads of the journal, seconds; read at this interval while deliveries are pending or no hints arrive over Redis.",
        ge=0.02,
    )
    webhook_lease_seconds: float = setting(
        30.0, "A sender's lease on an endpoint, seconds; above the time limit of an attempt.", ge=1
    )


class Monitoring(Topic):
    """Monitoring."""

    metrics_token: str = setting("", "Bearer token for `/metrics`.", secret=True)
    metrics_networks: Words = setting(
        [], "List of networks that may read `/metrics`.", shown="none (loopback in `make run`)"
    )
    ready_queue_depth: int = setting(10000, "Waiting jobs at which `/readyz` fails.", ge=1)


class Demo(Topic):
    """The demo."""

    demo: bool = setting(False, "Create demo users and runs.", shown="0 (1 in `make run`)")
    demo_repository: str = setting(
        str(BASE_DIR),
        "Git repository of which the demo reads a copy, in `HOLDPOINT_HOME/demo`.",
        shown="this folder",
    )


#: The topics of `settings.HOLDPOINT`.
PRODUCT: tuple[type[Topic], ...] = (
    SignIn,
    Limits,
    Execution,
    Speculation,
    Reviews,
    AuditLog,
    SecurityEvents,
    Tools,
    RemoteRunners,
    Sandbox,
    ToolGraph,
    LanguageModel,
    Notifications,
    Webhooks,
    Monitoring,
    Demo,
)
#: All topics, in the order of the documentation.
ALL: tuple[type[Topic], ...] = (
    Installation,
    Keys,
    Database,
    Redis,
    MakeRun,
    Web,
    OpenId,
    Mail,
    Logs,
    *PRODUCT,
)
