"""Answer DescribeNode: the node's health in numbers."""

from msgspec.structs import replace

from coordinator.clock import Moment
from coordinator.core.core import Core
from coordinator.facts.views import describe_node
from protocol.messages.node import DescribeNode
from protocol.session import RequestRef


def describe(core: Core, ref: RequestRef, message: DescribeNode, moment: Moment) -> None:
    """Answer with the node's health in numbers."""
    core.outbox.send(ref, replace(describe_node(core), wall_ms=moment.wall_ms))
