"""Bodies written by hand: of versions that no judge knows any more, and of APIs that one alone knows."""

import pytest

from protocol.apis import WIRE_APIS
from protocol.kafka.fields import Schema
from protocol.kafka.reading import reader
from protocol.kafka.writing import writer
from tests.protocol.kafka import consumer_group_goldens, goldens
from tests.protocol.kafka.goldens import Golden

GOLDENS = [*goldens.GOLDENS, *consumer_group_goldens.GOLDENS]
UNKNOWN_TAGS = consumer_group_goldens.goldens(consumer_group_goldens.UNKNOWN_TAGS)
SCHEMAS = {schema.name: schema for api in WIRE_APIS.values() for schema in (api.request, api.reply)}


def _schema(golden: Golden) -> Schema:
    return SCHEMAS[type(golden.message).__name__]


@pytest.mark.parametrize("golden", GOLDENS, ids=str)
def test_the_body_is_written_as_kafka_does(golden: Golden) -> None:
    assert writer(_schema(golden), golden.version)(golden.message) == golden.data


@pytest.mark.parametrize("golden", GOLDENS, ids=str)
def test_the_body_is_read_as_the_message_it_was(golden: Golden) -> None:
    assert reader(_schema(golden), golden.version)(golden.data, 0) == golden.message


@pytest.mark.parametrize("golden", UNKNOWN_TAGS, ids=str)
def test_tagged_fields_that_nobody_knows_are_read_over(golden: Golden) -> None:
    assert reader(_schema(golden), golden.version)(golden.data, 0) == golden.message
