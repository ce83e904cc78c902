"""Idempotent producers of a log: their state, the check of sequences, the snapshots."""
