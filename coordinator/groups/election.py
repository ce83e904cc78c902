"""Election of the protocol that all classic members of a group use (docs/spec/group-protocol.md#2.1.5)."""

from collections.abc import Sequence


def elect(offers: Sequence[list[str]], leaders: list[str]) -> str | None:
    """Elect among the names in every offer; None if there is none. Each offer votes for its first candidate; most votes
    win, and a tie goes to the earliest in the leader's offer, so that the choice never depends on chance."""
    candidates = set(leaders).intersection(*offers)
    if not candidates:
        return None
    votes: dict[str, int] = {}
    for offer in offers:
        choice = next(name for name in offer if name in candidates)
        votes[choice] = votes.get(choice, 0) + 1
    return max(votes, key=lambda name: (votes[name], -leaders.index(name)))
