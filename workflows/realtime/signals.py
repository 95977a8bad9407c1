"""The one signal: an execution moved, and the move is committed.

Sent with `execution_id` (str), `first_seq` and `last_seq` (int), `status` (str) and `started`, the
ids of tasks (tuple of str) that are running and take a while.  With `started`, `first_seq` may be
`last_seq` + 1: nothing new was recorded.  Receivers must not fail the sender: it is sent robustly,
and what it carries is news, not truth.
"""

from django.dispatch import Signal

execution_changed = Signal()
