"""What clients do, once for threads and for event loops: procedures are generators, two runners drive them."""
