"""Lag of groups: by partition, in sums, and in time."""
