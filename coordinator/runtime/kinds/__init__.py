"""Kinds of groups in a shard: their state tables, their records, and groups that change their kind."""
