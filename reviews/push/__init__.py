"""Web push: notices as messages of the browser, also while no page is open.

    notifications.notify ──> PushMessage ── sender ──> the browser's push service ──> push-worker.js

A message says that a review waits, in which run, and where.  It is encrypted for the browser
(RFC 8291); the push service reads nothing of it.
"""
