"""The versions that no judge knows any more."""

import pytest

from protocol.apis import WIRE_APIS
from protocol.kafka.fields import Schema
from protocol.kafka.reading import reader
from protocol.kafka.writing import writer
from tests.protocol.kafka.goldens import GOLDENS, Golden

SCHEMAS = {schema.name: schema for api in WIRE_APIS.values() for schema in (api.request, api.reply)}


def _schema(golden: Golden) -> Schema:
    return SCHEMAS[type(golden.message).__name__]


@pytest.mark.parametrize("golden", GOLDENS, ids=str)
def test_the_old_body_is_written_as_kafka_3_did(golden: Golden) -> None:
    assert writer(_schema(golden), golden.version)(golden.message) == golden.data


@pytest.mark.parametrize("golden", GOLDENS, ids=str)
def test_the_old_body_is_read_as_the_message_it_was(golden: Golden) -> None:
    assert reader(_schema(golden), golden.version)(golden.data, 0) == golden.message
