"""Streams that read without a group: Spark's checkpoint alone says how far they are."""
