#!/usr/bin/env python
"""Django's command line for Holdpoint. Uses the development settings unless told otherwise."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.dev")
    from django.core.management import execute_from_command_line

    from workflows.common.parent_death import end_with_starter

    end_with_starter()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
