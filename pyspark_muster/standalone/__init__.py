"""Streams that read without a group: only Spark's checkpoint has their positions."""
