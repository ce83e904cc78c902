"""Scheduled tasks: work that a node does from time to time in slices."""
