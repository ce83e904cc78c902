"""Deliberate bugs, each of which a check must find: `catalogue.py` lists them, `make mutants` tries them."""
