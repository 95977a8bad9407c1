"""Sign-in through an OpenID Connect provider with django-allauth (extra `oidc`).

Disabled unless HOLDPOINT_OIDC_ISSUER is set; until then only `options` is imported.

    options     environment variables and the Django settings derived from them
    tokens      the ID token: signature, issuer, audience, times, nonce
    provider    allauth's OAuth 2 flow with additional checks
    admission   accounts, user names and groups of admitted users
    adapter     allauth's adapters
    refusals    reasons and pages of refused sign-ins
    views       start and callback
"""
