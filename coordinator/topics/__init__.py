"""Embedded topics: which exist, their settings, produce and fetch."""
