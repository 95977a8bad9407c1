"""Webhooks: events of executions, posted to addresses that people name.

    journal ── collect ──> WebhookDelivery ── sender ──> the receiver
               (cursor per endpoint)          (one lane per endpoint and execution)

At least once, and in order per execution: the events of an execution go to an endpoint one after
the other, the next when the one before was answered with 2xx (or was given up after many tries).
Other executions and other endpoints do not wait for that.

`endpoints.py` holds the use cases, `signing.py` the signature, `payload.py` what is sent.
"""
