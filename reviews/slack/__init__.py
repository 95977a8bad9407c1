"""Reviews in Slack: messages with buttons, and the decisions that people make with them.

    notifications.notify ──> SlackMessage ── sender ──> Slack's Web API
    journal: a hold changed ── outbox.refresh ──┘ (the message is updated)

    Slack ── signed request ── views ── interactions ── deciding ──> reviews.decisions.services

A press counts as the person who linked the account (`accounts`).  Rights, four eyes, versions and
masks are the ones of every other interface.
"""
