"""Remote runners: run Python tools on a cluster for tasks that need more than a worker.

A worker submits the tool's name and inputs under the key of the attempt, the journal stores the
handle, and the run rests.  `watcher` sees that the call has ended and enqueues a job, in which a
worker reads the result and records it like every other result.

The core has no runner.  An app offers one with `registry.register_runner`, and implements
`port.RemoteRunner`; `workflows.contrib.dask` does so.
"""
