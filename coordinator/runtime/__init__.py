"""Shards of the offsets log: decide, append, apply, settle, hold; their loading and their snapshots."""
