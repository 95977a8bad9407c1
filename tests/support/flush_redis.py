"""A replacement for `redis-cli -u URL flushdb`, which the embedded Redis does not include."""

import sys

import redis

flag, url, command = sys.argv[1:]
assert (flag, command) == ("-u", "flushdb")
redis.Redis.from_url(url).flushdb()
