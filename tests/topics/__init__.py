"""Embedded topics on a simulated disk."""
