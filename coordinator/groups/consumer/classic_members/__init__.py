"""Members of a consumer group that speak the classic protocol (docs/spec/consumer-group-protocol.md#12)."""
