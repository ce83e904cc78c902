"""The work of clients, once for threads and for event loops: procedures are generators, two runners drive them."""
