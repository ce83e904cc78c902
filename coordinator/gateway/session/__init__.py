"""A connection in front of a broker: group requests are answered here, all others by the broker."""
