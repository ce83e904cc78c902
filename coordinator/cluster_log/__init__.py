"""A shard's log as a partition of a topic of the Kafka cluster: the protocol of docs/spec/shared-log.md, without
I/O."""
