"""Finds what is wrong with groups, from what servers say of them, in words for people.

Pure: it asks nobody and reads no clock, so the daemon's pages and the command share it, and it holds for any Kafka."""
