"""Fixtures that tests with real processes share."""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_muster.session import local_session
from tests.edges.transactional_kafka import kafka_and_node, make_topics

HERE = Path(__file__).parent
SLOW = ("spark", "spark-2", "spark-cluster")
"""Groups that begin first, the longest before the others, so that no worker is left alone with one at the end."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java for a session that ends before the optimizing compiler has earned what it costs."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a module on one worker, where its tests share one daemon."""
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(HERE).with_suffix("").as_posix()))
    items.sort(key=lambda item: SLOW.index(group_of(item)) if group_of(item) in SLOW else len(SLOW))


def group_of(item: pytest.Item) -> str | None:
    marker = item.get_closest_marker("xdist_group")
    return None if marker is None else str(marker.args[0])


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a name for a topic and a group that no other test uses, short enough for client-balanced groups."""
    return f"{re.sub('[^a-z0-9]+', '-', request.node.name.lower())[:40]}-{secrets.token_hex(3)}"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of a worker: it takes ten seconds to start, so two workers have one. Whoever uses it carries
    `xdist_group("spark")`, with queries that run for long, or `xdist_group("spark-2")`."""
    session = local_session("tests", settings={"spark.driver.defaultJavaOptions": _SHORT_LIVED})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def transactional_bootstraps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A broker of Kafka's and a node whose log is in it, one of each for a module."""
    with kafka_and_node(tmp_path_factory.mktemp("transactions")) as both:
        yield both


@pytest.fixture(params=["kafka", "muster"])
def where(request: pytest.FixtureRequest, transactional_bootstraps: dict[str, str], name: str) -> str:
    """Return a bootstrap that serves transactions; topics `NAME-in` and `NAME-out` are there."""
    bootstrap = transactional_bootstraps[request.param]
    make_topics(bootstrap, f"{name}-in", f"{name}-out")
    return bootstrap
