"""Second factors (TOTP and recovery codes) through django-allauth, for high-risk decisions."""
