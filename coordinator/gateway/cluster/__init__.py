"""The nodes' group and the log's topics, without I/O: the owner of each shard, and the requirements on brokers."""
