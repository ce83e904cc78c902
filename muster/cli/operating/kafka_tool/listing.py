"""`muster-consumer-groups --list`: consumer groups of both protocols, by state and type."""

from argparse import Namespace
from typing import Final

from muster.admin.nodes import list_groups
from muster.blocking.cluster import ClusterClient
from muster.cli.operating.kafka_tool.arguments import refuse
from muster.cli.operating.kafka_tool.describing import PROTOCOL_TYPES
from muster.cli.showing import say_left_out
from protocol.messages.groups import ListedGroup

_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
_TYPES: Final = ("Classic", "Consumer")


def show_groups(cluster: ClusterClient, parsed: Namespace) -> None:
    """Print the groups, with their types and states if one of these options is given."""
    states = _choice(parsed.state, _STATES, "state")
    types = _choice(parsed.type, _TYPES, "types")
    found = [
        one
        for one in consumer_groups(cluster)
        if (not states or one.group_state.lower() in states) and (not types or one.group_type.lower() in types)
    ]
    columns = [("TYPE", "group_type")] if parsed.type is not None else []
    columns += [("STATE", "group_state")] if parsed.state is not None else []
    if not columns:
        print("".join(f"{one.group_id}\n" for one in found), end="")
        return
    width = max([15, *(len(one.group_id) for one in found)]) + 10
    print(f"{'GROUP':<{width}} " + " ".join(f"{name:<20}" for name, _field in columns))
    for one in found:
        values = (getattr(one, field) for _name, field in columns)
        print(f"{one.group_id:<{width}} " + " ".join(f"{value[:1].upper() + value[1:]:<20}" for value in values))


def consumer_groups(cluster: ClusterClient) -> list[ListedGroup]:
    """Return the groups that Kafka's tool is for, by name: no groups of connectors, no share groups."""
    types = {name.lower() for name in _TYPES}
    return [
        one
        for one in list_groups(cluster, say_left_out)
        if one.protocol_type in PROTOCOL_TYPES and one.group_type.lower() in types
    ]


def _choice(said: str | None, known: tuple[str, ...], what: str) -> set[str]:
    """Return the chosen words in lower case; none chooses all."""
    wanted = {one.strip().lower() for one in said.split(",")} if said else set()
    if not wanted <= {one.lower() for one in known}:
        refuse(f"Invalid {what} list '{said}'. Valid {what.removesuffix('s')}s are: {', '.join(known)}")
    return wanted
