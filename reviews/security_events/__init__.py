"""Export security events as OCSF to a file, a syslog server or an HTTPS address."""
