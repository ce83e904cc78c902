"""Our own client among others: at an Apache Kafka, and in groups with its clients."""
