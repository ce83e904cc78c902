"""A node in front of a Kafka cluster: groups and offsets are Muster's, records and topics the cluster's."""
