"""Remote runners: run Python tools on a cluster for tasks that need more than a worker.

A worker submits the tool's name and inputs under the key of the attempt, the journal stores the
handle, and the run rests.  `watcher` sees that the call has ended and enqueues a job, in which a
worker reads the result and records it like every other result.
"""
