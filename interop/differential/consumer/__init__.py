"""Histories of groups that the coordinator balances (docs/spec/consumer-group-protocol.md)."""
