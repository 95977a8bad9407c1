"""The demo: users, tool servers and workflows of a new installation."""
