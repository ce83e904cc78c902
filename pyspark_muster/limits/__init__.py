"""Limits of a batch that offsets alone do not determine."""
