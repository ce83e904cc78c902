"""Shards of the offsets log: decide, append, apply, settle, hold; how they load and what they show."""
