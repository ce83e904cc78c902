"""Stands in for the `conftest.py` of aiokafka's tests, which starts Kafka in Docker: a server that runs already."""

import asyncio
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ssl: needs certificates")


@pytest.fixture(scope="class")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    gc.collect()
    asyncio.set_event_loop(None)


@pytest.fixture(scope="class")
def setup_test_class_serverless(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    request.cls.loop = loop


@pytest.fixture(scope="class")
def setup_test_class(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
    host, _, port = os.environ["FOREIGN_BOOTSTRAP"].rpartition(":")
    request.cls.loop = loop
    request.cls.kafka_host = host
    request.cls.kafka_port = int(port)
    request.cls.hosts = [f"{host}:{port}"]
    request.cls.kafka_version = "4.3.1"
    request.cls.ssl_folder = Path("no-certificates")
    request.cls.acl_manager = request.cls.kerberos_utils = request.cls.kafka_config = None
