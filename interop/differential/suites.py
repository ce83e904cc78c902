"""Suites of histories: how they are drawn, what they ask, and how the two servers are set up for them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from interop.differential import generator
from interop.differential.allowed import RULES, Rule
from interop.differential.consumer import generator as consumer_generator
from interop.differential.consumer.generator import SESSION_MS
from interop.differential.consumer.rules import CONSUMER_RULES
from interop.differential.consumer.steps import CONSUMER_ASKS
from interop.differential.steps import ASKS, Ask, History
from interop.differential.views import ALL_TOPICS, TOPICS

_CLASSIC: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.max.size": "5",
}
_KAFKA: Mapping[str, str] = {"group.coordinator.append.linger.ms": "0"}
_CONSUMER: Mapping[str, str] = {
    **_CLASSIC,
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.max.size": "5",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.assignment.interval.ms": "0",
}


class Suite(NamedTuple):
    """`topics`: their numbers of partitions. `orders_topics`: their ids leave assignors one order at both servers."""

    draw: Callable[[int], History]
    asks: tuple[type[Ask], ...]
    rules: tuple[Rule, ...]
    kafka: Mapping[str, str]
    muster: Mapping[str, str]
    topics: Mapping[str, int]
    orders_topics: bool = False


def _consumer(draw: Callable[[int], History]) -> Suite:
    return Suite(
        draw,
        (*ASKS, *CONSUMER_ASKS),
        (*RULES, *CONSUMER_RULES),
        {**_CONSUMER, **_KAFKA},
        _CONSUMER,
        ALL_TOPICS,
        orders_topics=True,
    )


SUITES: Mapping[str, Suite] = {
    "classic": Suite(generator.draw, ASKS, RULES, {**_CLASSIC, **_KAFKA}, _CLASSIC, TOPICS),
    "consumer": _consumer(consumer_generator.draw),
    "consumer-alone": _consumer(consumer_generator.draw_alone),
}
