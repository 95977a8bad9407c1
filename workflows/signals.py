"""The one signal: an execution moved, and the move is committed.

Sent with `execution_id` (str), `first_seq` and `last_seq` (int) and `status` (str).  Receivers must
not fail the sender: it is sent robustly, and what it carries is news, not truth.
"""

from django.dispatch import Signal

execution_moved = Signal()
