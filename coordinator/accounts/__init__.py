"""Accounts: credentials, access control lists, the SASL exchange and the authorizer. No I/O, no clock."""
