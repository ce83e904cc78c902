"""Groups whose targets are computed one after another, each from the previous one."""

from collections.abc import Mapping
from typing import NamedTuple

from membership.server_assignors.registry import ASSIGNORS
from membership.server_assignors.spec import SubscribedMember, Targets, run


class Topic(NamedTuple):
    name: str
    partitions: int


def topic_id(high: int, low: int) -> bytes:
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


class AssignorRig:
    """A group: its topics by name, its members with the names of their topics."""

    def __init__(self, assignor: str = "uniform", /, **partitions: int) -> None:
        self.assignor = assignor
        self.ids = {name: topic_id(1, number) for number, name in enumerate(partitions, 1)}
        self.topics = {self.ids[name]: Topic(name, count) for name, count in partitions.items()}
        self.members: dict[str, tuple[str | None, frozenset[bytes]]] = {}
        self.targets: Targets = {}

    def join(self, member_id: str, names: str, instance_id: str | None = None) -> None:
        self.members[member_id] = instance_id, frozenset(self.ids[name] for name in names.split())

    def leave(self, member_id: str) -> None:
        del self.members[member_id]

    def grow(self, name: str, partitions: int) -> None:
        self.topics[self.ids[name]] = Topic(name, partitions)

    @property
    def is_homogeneous(self) -> bool:
        return len({topics for _, topics in self.members.values()}) == 1

    def spec(self) -> list[SubscribedMember]:
        return [
            SubscribedMember(member_id, instance_id, topics, self.targets.get(member_id, {}))
            for member_id, (instance_id, topics) in self.members.items()
        ]

    def compute(self) -> dict[str, str]:
        """Compute the next target. Return it as text, by member."""
        self.targets = run(ASSIGNORS[self.assignor](self.spec(), self.topics, self.is_homogeneous))
        return {member_id: self.show(target) for member_id, target in self.targets.items()}

    def show(self, target: Mapping[bytes, frozenset[int]]) -> str:
        shown = {self.topics[topic_id].name: sorted(partitions) for topic_id, partitions in target.items()}
        return " ".join(f"{name}{','.join(map(str, numbers))}" for name, numbers in sorted(shown.items()))


def check(rig: AssignorRig) -> None:
    """Check that each partition of a subscribed topic has one owner, who subscribes to it."""
    owned = [
        (topic, partition)
        for member_id, target in rig.targets.items()
        for topic, partitions in target.items()
        for partition in partitions
    ]
    wanted = set().union(*(topics for _, topics in rig.members.values())) if rig.members else set()
    assert sorted(owned) == sorted((one, number) for one in wanted for number in range(rig.topics[one].partitions))
    for member_id, target in rig.targets.items():
        assert target.keys() <= rig.members[member_id][1]
        assert all(target.values()), "no empty sets"
    assert rig.targets.keys() == rig.members.keys()
