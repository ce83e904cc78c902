"""Classic groups: JoinGroup and SyncGroup, of any protocol type (docs/spec/group-protocol.md#1 and #2)."""
