"""Requests for operators and analyses: groups, commits, notes and log ends."""
