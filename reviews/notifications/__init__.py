"""What people are told: in the bell, by e-mail, in a chat.

    journal ── feed ──┐                                 ┌── inbox ──> bell, REST, pages
    holds ── timers ──┼── telling ──> Notice, per person┘
    claims ───────────┘        └────> NoticeMessage ── sender ──> e-mail, chat

Nothing here is on the way of a run: the feed reads the journal behind a cursor, as webhooks do, in
the sweeper's process.  A notice and the message that tells of it commit together.  A message goes
out at least once; what came within a few seconds goes out as one.
"""
