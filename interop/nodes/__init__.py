"""Three musterd over one cluster's log, and everything that can go wrong with them, while groups commit."""
