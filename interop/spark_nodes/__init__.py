"""Spark queries and services over several musterd that are killed."""
