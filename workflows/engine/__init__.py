"""The protocol of an execution, in pure Python.

An execution is a list of recorded events; its *version* is their number.  Three functions and a
loop define it:

- `next_move(state)` returns a worker's next move.  The order of its checks is the protocol.
- `decide(state, command)` turns a command into events, or refuses it with a reason.
- `evolve(state, event)` folds an event into the state.  Nothing else changes a state, and it
  checks every change of status against `protocol.status.TRANSITIONS`.
- `step()` claims a lease, then calls `next_move`, executes the move and records its events until
  the execution rests.  `submit()` decides and records one command for an execution at rest.

The order of the checks has these consequences:

- Nothing is decided inside a running layer.  A task that needs more permission ends its attempt;
  the request becomes a hold at the layer boundary.  No worker ever waits for a person.
- Siblings keep their results: a finished task never runs again.
- Whether a task needs a review is decided once and stored with the hold.
- Resuming, forking and recovery read the journal and call `next_move` again, so none of them
  passes an undecided hold.

A task may run more than once (a worker may die between the effect and the record), but its result
is applied once.  `TaskCall.key` is identical for every repetition of one attempt.

The packages import in one direction: `protocol` (the functions above), `plans` (tasks, validation,
risk), `policy` (reviews, floors, permissions), `values` (JSON, expressions, texts).

Next, read `protocol.loop`, then `moves`, `decide`, `evolve` and `state` beside it.
"""
