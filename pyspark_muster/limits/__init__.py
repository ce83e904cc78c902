"""Limits of a batch that logs do not tell by their offsets alone."""
