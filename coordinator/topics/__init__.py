"""Embedded topics: their list, their settings, produce and fetch."""
