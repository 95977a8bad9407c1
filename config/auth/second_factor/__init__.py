"""Second factors (TOTP and recovery codes) through django-allauth, for decisions of high risk."""
