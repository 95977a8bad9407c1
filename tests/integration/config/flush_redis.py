"""What `redis-cli -u URL flushdb` does; the embedded Redis comes without that program."""

import sys

import redis

flag, url, command = sys.argv[1:]
assert (flag, command) == ("-u", "flushdb")
redis.Redis.from_url(url).flushdb()
