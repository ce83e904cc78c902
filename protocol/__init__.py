"""Wires: bytes in, typed messages out. No I/O, no clock, nothing of the coordinator."""
