"""The one object of a group id, whatever kind of group it is."""

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.groups.classic.group_states import GroupState
from coordinator.groups.classic.state import ClassicGroup
from coordinator.groups.client_balanced import applying
from coordinator.groups.client_balanced.state import BalancedGroup, BalancedState
from coordinator.groups.consumer.state import ConsumerGroup
from coordinator.groups.ownership import Owners
from coordinator.records.records import BalancedMetadata

if TYPE_CHECKING:
    from coordinator.runtime.group_counts import Counted
    from coordinator.runtime.shard import Shard


class GroupKind(enum.Enum):
    """The kinds of groups. All members of a group are of its kind."""

    CLASSIC = "classic"
    CLIENT_BALANCED = "client-balanced"
    CONSUMER = "consumer"


@dataclass(slots=True, eq=False)
class Group:
    """A group of a shard. It is of one `kind`, which changes in `Shard.apply` alone, when a record says so. The states
    of other kinds stay, without members, while they are on record: no generation or epoch goes back when the kind
    changes (docs/decisions/026-one-object-a-group-id.md)."""

    group_id: str
    shard: "Shard"
    classic: ClassicGroup
    """Every group has it: a group without members is an Empty classic one. It keeps the ownership registry."""
    balanced: BalancedGroup | None = None
    """The state of its present or former client-balanced members; None before the first of them."""
    consumer: ConsumerGroup | None = None
    """The state of a server-driven consumer group; None before its first record. Its offsets are those of the Empty
    classic group."""
    kind: GroupKind = GroupKind.CLASSIC
    counted: "Counted | None" = None
    """Contribution of the group to the counts of its shard."""

    @property
    def serving_consumer(self) -> ConsumerGroup | None:
        """The server-driven state while the group is of that kind; else None."""
        consumer = self.consumer
        return consumer if consumer is not None and self.kind is GroupKind.CONSUMER else None

    @property
    def is_empty(self) -> bool:
        """True if the group has no member of any kind."""
        if (consumer := self.serving_consumer) is not None:
            return not consumer.members
        return self.kind is GroupKind.CLASSIC and self.classic.state is GroupState.EMPTY

    @property
    def member_count(self) -> int:
        """Number of members, of any kind."""
        if (consumer := self.serving_consumer) is not None:
            return len(consumer.members)
        return len(self.classic.members) if self.balanced is None else len(self.balanced.members)

    def has_member(self, member_id: str) -> bool:
        """Return true if the group has a member with this id, of any kind."""
        if (consumer := self.serving_consumer) is not None:
            return member_id in consumer.members
        return member_id in (self.classic.members if self.balanced is None else self.balanced.members)

    @property
    def recorded_kinds(self) -> list[GroupKind]:
        """Kinds that the group is, or was since it was created."""
        kinds = [GroupKind.CLASSIC]
        if self.balanced is not None:
            kinds.append(GroupKind.CLIENT_BALANCED)
        if self.consumer is not None:
            kinds.append(GroupKind.CONSUMER)
        return kinds

    def as_balanced(self) -> BalancedGroup:
        """Return the client-balanced state. If the group has none, return a new, Empty one, which the group gets when
        one of its records is applied."""
        if self.balanced is not None:
            return self.balanced
        return BalancedGroup(self.group_id, self.owners(), self.shard.broker_id, self.classic.settings.max_size)

    def as_consumer(self) -> ConsumerGroup:
        """Return the server-driven state. If the group has none, return a new, Empty one, which the group gets when
        one of its records is applied."""
        return self.consumer or self.shard.new_consumer(self.group_id)

    def owners(self) -> Owners:
        """Return the ownership registry."""
        if self.classic.owners is None:
            self.classic.owners = Owners()
        return self.classic.owners

    def apply_balanced(self, record: BalancedMetadata) -> None:
        """Apply a record of the client-balanced state, which sets the kind."""
        self.balanced = self.as_balanced()
        applying.apply(self.balanced, record)
        self.become(GroupKind.CLIENT_BALANCED if record.members else GroupKind.CLASSIC)

    def drop_balanced(self) -> None:
        """Drop the client-balanced state after its deletion."""
        self.balanced = None
        self.become(GroupKind.CLASSIC)

    def become(self, kind: GroupKind) -> None:
        """Change the kind (docs/spec/client-balanced-groups.md#12)."""
        listed = self.shard.of_kind
        listed.get(self.kind, {}).pop(self.group_id, None)
        self.kind = kind
        if kind in listed:
            listed[kind][self.group_id] = self

    def end(self) -> None:
        """End the group after its removal from the shard."""
        self.become(GroupKind.CLASSIC)
        self.classic.state = GroupState.DEAD
        if self.balanced is not None:
            self.balanced.state = BalancedState.DEAD
        if self.consumer is not None:
            self.consumer.is_dead = True
