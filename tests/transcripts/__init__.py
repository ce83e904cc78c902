"""Behaviour as text: what was sent, and what came of it."""
