"""Groups: the tables that say who may do what, in which state, and the actions they name."""
