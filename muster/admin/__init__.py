"""Requests of operators and analyses: groups, commits, notes and log ends."""
