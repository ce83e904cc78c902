"""Lag of groups: of each partition, in sums, and in time."""
