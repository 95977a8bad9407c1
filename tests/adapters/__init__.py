"""Tests of the adapters against the real packages: `make test-adapters`."""
