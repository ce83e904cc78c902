class Broken(AssertionError):
    """Something that must always hold did not. `World.run` names the seed: replay it alone with
    `python -m tests.simulation --seed N`."""
