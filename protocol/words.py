"""Counts with nouns, for notes, diagnoses and commands."""


def counted(number: int, noun: str) -> str:
    """Format a count: `1 member`, `2 members`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
