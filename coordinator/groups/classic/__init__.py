"""Classic groups: JoinGroup and SyncGroup, of any protocol type (group-protocol sections 1 and 2)."""
