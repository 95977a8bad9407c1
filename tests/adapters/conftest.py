"""These tests need the packages that `make test-adapters` installs."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("claude_agent_sdk") else ["test_*.py"]
