class Broken(AssertionError):
    """An invariant is violated. `World.run` names the seed: replay it alone with `python -m tests.simulation --seed
    N`."""
