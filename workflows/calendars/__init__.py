"""Business hours: deadlines, reminders and escalations that count only the time people work.

An admin describes calendars (`models/calendars.py`).  An execution gets a copy of its calendar with
its policy (`services.py`), and the journal turns the seconds of a hold into moments when it writes
the hold (`business_time.py`).  The engine knows only seconds.
"""
