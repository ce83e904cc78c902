"""Members of a consumer group that use the classic protocol (docs/spec/consumer-group-protocol.md#12)."""
