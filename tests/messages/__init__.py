"""Gathers the words of pages and scripts, and compiles them: what `make messages` runs.

It needs Babel alone, not GNU gettext. See docs/howto/translate.md.
"""
