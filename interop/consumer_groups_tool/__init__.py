"""Comparison of `muster-consumer-groups` with the script of Apache Kafka whose arguments it takes."""
