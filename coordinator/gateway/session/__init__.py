"""A connection in front of a broker: groups are answered here, everything else is the broker's."""
