"""Notifications: in the bell, by e-mail and in chats.

    journal ── journal_consumer ──┐                  ┌── inbox ──> bell, REST, pages
    holds ── timers ──────────────┼── notify ──> Notice, one per person
    claims ── claim_notices ──────┘        └───> NoticeMessage ── sender ──> e-mail, chat

Executions never wait for notifications: the sweeper's process reads the journal behind a cursor, as
webhooks do.  A notice and its message commit together.  A message is sent at least once; the
notices of a few seconds are sent as one message.
"""
