"""What can go wrong while a leader shares out."""


class CannotShareOut(Exception):
    """Why no assignment of the leader's assignor can be given: a sentence."""
