"""The nodes' group and the log's topics, without I/O: who owns which shard, and what the brokers must be."""
