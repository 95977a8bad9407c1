"""Security events: a row for the admin's list, and a JSON line in the log, for each."""
