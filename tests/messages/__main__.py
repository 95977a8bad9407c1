"""`python -m tests.messages`: gather what is marked, keep what is translated, compile."""

import sys

import django


def main() -> int:
    django.setup()
    from tests.messages.catalogues import write_all

    waiting = write_all()
    for message in waiting:
        print(f"without a translation: {message.id!r}")
    print(f"{len(waiting)} waiting" if waiting else "every string is translated")
    return 0


if __name__ == "__main__":
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.test")
    sys.exit(main())
