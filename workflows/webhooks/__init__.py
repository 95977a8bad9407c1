"""Webhooks: post events of executions to URLs that users register.

    journal ── fan_out ──> WebhookDelivery ── sender ──> the receiver
               (cursor per endpoint)          (one lane per endpoint and execution)

Delivery is at least once, and in order per execution: an endpoint gets the next event of an
execution after the receiver answered the previous one with 2xx, or after all attempts failed. Other
executions and other endpoints are independent.

`services.py` holds the use cases, `api.py` the REST API, `signing.py` the signature, `payload.py`
the request body.
"""
