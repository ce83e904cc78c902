"""Finds problems of groups in what servers report about them, and describes them for people. Pure: it sends no request
and reads no clock, so the daemon's pages and the command share it, and it works with any Kafka."""
