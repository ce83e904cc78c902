"""Offsets of the cluster's partitions: the answers known, and the requests to their leaders."""
