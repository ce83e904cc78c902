"""Beside real brokers: groups and offsets are this node's, records and topics are an existing cluster's."""
