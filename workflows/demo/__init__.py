"""The demo: people, servers and workflows that a fresh installation starts with."""
