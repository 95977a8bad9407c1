"""SCIM 2.0 (RFC 7643, RFC 7644): an identity provider manages accounts and groups.

A subset that Okta and Microsoft Entra use: accounts and groups with filters of equality, PUT, PATCH
and DELETE.  Administrators are protected from it, see `rights`.
"""
