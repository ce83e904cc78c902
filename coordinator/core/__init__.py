"""Admission and cost of a request, and the parts of a node that handlers use."""
