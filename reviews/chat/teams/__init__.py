"""Reviews in Microsoft Teams: cards with buttons, and the decisions that people make with them.

    notifications.notify ──> TeamsMessage ── sender ──> connector ──> Teams
    journal: a hold changed ── outbox.refresh ──┘ (the card is updated)

    Teams ── request with a JSON Web Token ── views ── tokens ──> interactions ──> chat.deciding

Holdpoint is a bot of the Bot Framework; each bot belongs to one tenant of Microsoft Entra.  The
formats are those of botframework-connector and botbuilder-schema (microsoft/botbuilder-python), of
"Authentication with the Bot Connector API", and of the "Universal Action Model" of Adaptive Cards.
"""
