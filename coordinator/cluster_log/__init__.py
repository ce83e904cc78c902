"""A shard's log as a partition of the Kafka cluster's own log: the protocol of docs/spec/shared-log.md, without I/O."""
