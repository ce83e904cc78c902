"""Logins of other people's clients, by every mechanism, with and without TLS."""
