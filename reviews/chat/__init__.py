"""Reviews in Slack: messages with buttons, and the decisions that people make with them.

    notifications.notify ──> SlackMessage ── sender ──> Slack's Web API
    journal: a hold changed ── outbox.refresh ──┘ (the message is updated)

    Slack ── signed request ── views ── interactions ──> reviews.decisions.services.decide

A press counts as the person who linked the Slack account (`accounts`).  Rights, four eyes, versions
and masks are the ones of every other interface.
"""
