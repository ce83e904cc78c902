"""Authorization asked of a running Apache Kafka: each API with each kind of ACL, and the answers as a file."""
