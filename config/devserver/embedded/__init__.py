"""PostgreSQL 18 with pgvector and Redis, from PyPI wheels, on unix sockets below one folder.

Made for one machine: `make run` and the tests. A deployment sets DATABASE_URL and REDIS_URL
instead, and nothing here is used.
"""

from config.devserver.embedded.layout import EmbeddedError, Layout, Urls
from config.devserver.embedded.servers import EmbeddedServers

__all__ = ["EmbeddedError", "EmbeddedServers", "Layout", "Urls"]
