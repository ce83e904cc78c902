"""Actions of `muster-consumer-groups`, which prints what Apache Kafka's own script prints."""
