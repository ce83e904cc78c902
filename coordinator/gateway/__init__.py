"""The node in front of an existing cluster: groups and offsets are Muster's, records and topics the cluster's."""
