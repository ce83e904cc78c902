"""Others' consumers with `group.protocol=consumer` at an Apache Kafka and at a musterd: the same stories at both."""
