"""Facts about one group that rules ask for, kept while a history is played."""

from collections import Counter
from typing import NamedTuple

from interop.differential.views import Profile


class Facts(NamedTuple):
    """The group as it is when answers are compared; pairs are at Kafka and at musterd.

    `rosters`: clients in the present generation, by what its leader was told. `is_joining`: a JoinGroup is unanswered,
    or was until just now. `missed_rebalance`: a static member is in the generation that did not join for it.
    `owes_sync`: one was replaced before it had synced. `replaced`: one has joined again. `turned_away`: a member was
    just told that the group is full. `pending_left`: an id left that had not joined. `nothing_stored`: of a commit
    every partition was refused. `made_ids`: the coordinator made the id of a member whose partitions it assigns.
    `renamed`: a member joined again with another instance id. `assignors`: those that members have asked for.
    `refused_join`: a JoinGroup was refused. `went_over`: a classic member that had to sync, or to join again, has gone
    over to the consumer protocol. `balanced`: the coordinator has assigned partitions. `joined_again`: a classic member
    of such a group joined again after it had synced, and has not synced since. `owed_join`: a member had to join again,
    and did so when the group was classic. `unmatched`: a member has changed to a pattern that matches no topic.
    `went_classic`: the last member of the consumer protocol has joined by a JoinGroup under its own id. `owes_step`: a
    classic member has to sync, or to join again. `is_uneven`: a member has subscribed to a pattern, or to
    nothing. `lacks_topics`: to nothing.
    """

    leaders_before: tuple[str | None, str | None] = (None, None)
    leaders: tuple[str | None, str | None] = (None, None)
    rosters: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    profiles: tuple[Profile, ...] = ()
    is_joining: bool = False
    missed_rebalance: bool = False
    owes_sync: bool = False
    turned_away: bool = False
    replaced: bool = False
    pending_left: bool = False
    nothing_stored: bool = False
    made_ids: bool = False
    renamed: bool = False
    refused_join: bool = False
    went_over: bool = False
    balanced: bool = False
    joined_again: bool = False
    owed_join: bool = False
    unmatched: bool = False
    went_classic: bool = False
    owes_step: bool = False
    is_uneven: bool = False
    lacks_topics: bool = False
    assignors: frozenset[str] = frozenset()

    @property
    def leaders_differ(self) -> bool:
        return self.leaders[0] != self.leaders[1]

    def votes_tie(self, one: str, other: str, newcomer: int | None = None) -> bool:
        """Return whether as many members of the generation prefer one protocol as the other, of those that all support.

        A newcomer stands for the previous holder of its instance."""
        clients = set(self.rosters[1])
        if newcomer is not None:
            instance = self.profiles[newcomer].instance
            clients = {client for client in clients if self.profiles[client].instance != instance} | {newcomer}
        members = [self.profiles[client].protocols for client in clients]
        common = [name for name in (one, other) if all(name in offered for offered in members)]
        votes = Counter(next(name for name in offered if name in common) for offered in members if common)
        return len(common) == 2 and votes[one] == votes[other]
