"""Offsets of the cluster's partitions: the known answers, and the requests to the partitions' leaders."""
