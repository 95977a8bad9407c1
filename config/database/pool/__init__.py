"""Django's PostgreSQL backend over a pool of sessions, for the web role (`ENGINE`).

A new session costs a start of a server process and cold catalogue caches, which is more than most
requests' own queries.  Here a request borrows a session that has seen them all.
"""
