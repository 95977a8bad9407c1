"""Signing in through a provider of OpenID Connect, by django-allauth: the extra `oidc`.

Off unless HOLDPOINT_OIDC_ISSUER is set.  `options` alone is read then; nothing else here is
imported, and nothing of allauth.

    options     what the environment asks for, and Django's settings for it
    tokens      the ID token: signature, issuer, audience, times, nonce
    provider    allauth's OAuth 2 flow, stricter
    admission   who is let in, under which name, in which groups
    adapter     where allauth asks us
    views       the two addresses
"""
