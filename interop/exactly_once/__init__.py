"""Transactions of other people's clients through several musterd: each record's effect exactly once."""
