"""Schemathesis against a real daemon: whatever a client sends, the answer is one that the OpenAPI document promises."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import strategies
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from muster import Consumer
from muster.blocking import ClusterClient
from protocol.messages.topics import CreatableTopic, CreateTopics
from tests.edges.musterd import Daemon, running
from tests.enumerations import share_of

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]
STREAM = "/v1/events"
"""It does not end; tests/http/test_events.py has it."""
KNOWN = {"cluster": "c-1", "group": "billing", "topic": "orders", "partition": 0, "id": "billing:1", "broker": "1"}
"""Names that are there, for half of the requests: what is drawn never is."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("musterd") / "data"
    settings = ("group.initial.rebalance.delay.ms=0", "cluster.id=c-1")
    with running(folder, *settings, with_http=True) as daemon:
        with ClusterClient(daemon.bootstrap) as connection:
            connection.ask(CreateTopics((CreatableTopic("orders", 4),)))
        with Consumer(daemon.bootstrap, "billing", enable_auto_commit=False) as consumer:
            consumer.subscribe(["orders"])
            while len(consumer.assignment) < 4:
                consumer.poll(1)
            consumer.commit(dict.fromkeys(consumer.assignment, 0))
        yield daemon


@pytest.mark.parametrize(
    "mode", [GenerationMode.POSITIVE, pytest.param(GenerationMode.NEGATIVE, marks=pytest.mark.long)]
)
def test_no_answer_is_an_error_of_ours_or_undocumented(daemon: Daemon, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{daemon.http_port}/openapi.json", timeout=120)
    tried = 0
    for found in schema.exclude(path=STREAM).get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]  # of a valid document

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode), is_known=strategies.booleans())
        @hypothesis.settings(
            max_examples=share_of(15),
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def check(case: Any, is_known: bool) -> None:
            if is_known:
                case.path_parameters = {name: KNOWN.get(name, value) for name, value in case.path_parameters.items()}
            case.call_and_validate(checks=CHECKS, timeout=120)

        try:
            check()
            tried += 1
        except hypothesis.errors.Unsatisfiable:
            assert mode is GenerationMode.NEGATIVE, operation.label  # of a text alone nothing is wrong
    assert tried > (40 if mode is GenerationMode.POSITIVE else 15)
