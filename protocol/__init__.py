"""Wire protocols: bytes in, typed messages out. No I/O, no clock, no dependency on the coordinator."""
