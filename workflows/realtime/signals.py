"""The signal `execution_changed`, sent after events of an execution are committed.

Arguments: `execution_id` (str), `first_seq` and `last_seq` (int), `status` (str), and `started`
(tuple of str), the ids of tasks that have started and take a while.  With `started`, `first_seq`
may be `last_seq` + 1: no new event was recorded.  It is sent with `send_robust`, so receivers
cannot fail the sender.  Receivers read the data itself from the database.
"""

from django.dispatch import Signal

execution_changed = Signal()
