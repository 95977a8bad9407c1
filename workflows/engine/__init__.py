"""The protocol of an execution, pure Python.

An execution is a list of recorded events; its *version* is their number.  Three functions and a
loop say everything there is to say about it:

- `next_move(state)` says what a worker does next.  The order of its questions is the protocol.
- `decide(state, command)` turns a command into events, or refuses it with a reason.
- `evolve(state, event)` folds an event into the state.  Nothing else changes a state, and it
  checks every change of status against `status.TRANSITIONS`.
- `step()` claims a lease, asks `next_move`, makes the move, records it, until the execution rests.
  `submit()` decides and records one command for an execution at rest.

What follows from the order of the questions:

- Nothing is decided inside a running layer.  A task that needs more permission says so; that is
  gathered with the layer's other results and becomes a hold at the boundary.  No worker ever waits
  for a person.
- Siblings keep their results: a settled task never runs again.
- The verdict "this needs review" is taken once and stored with the hold.
- Resuming, forking and rescuing all start from the journal and ask `next_move` again, so none of
  them passes a hold that nobody decided.

Tasks may be tried more than once (a worker may die between the effect and the record); a result is
applied once.  `TaskCall.key` is the same for every repetition of one attempt.

Read on in `loop`, then `moves`, `decide`, `evolve`, `state`.
"""
