"""Byte for byte, both ways, against two implementations that share no line with ours."""

from collections.abc import Iterator

import pytest

from protocol.apis import WIRE_APIS, WireApi
from protocol.kafka.client import encode_request
from protocol.kafka.reading import reader
from protocol.kafka.session import KafkaDialect
from protocol.kafka.writing import writer
from tests.enumerations import some
from tests.protocol.kafka import consumer_group_goldens, goldens
from tests.protocol.kafka.judges import JUDGES, Judge, KafkaPython
from tests.protocol.kafka.samples import CASES, Case, Choices, Filled, carried, sample

KNOWN_TO_ONE = {68, 69}
"""Keys of APIs that one judge alone knows; test_goldens has their tagged fields."""

each_api = pytest.mark.parametrize("api", WIRE_APIS.values(), ids=lambda api: api.request.name)
each_judge = pytest.mark.parametrize("judge", JUDGES.values(), ids=JUDGES.keys())


def cases_of(api: WireApi, judge: Judge | None = None) -> Iterator[Case]:
    yield from some(case for case in CASES if case.api is api and (judge is None or judge.knows(case)))


def contents() -> list[Choices]:
    """Several elements of everything, one of everything, null wherever null may be, nothing at all."""
    return [Filled(entries=3), Filled(entries=1), Filled(nulls=True), Filled(entries=0), Filled(entries=0, nulls=True)]


def test_every_version_of_every_api_is_judged_by_both_or_written_by_hand() -> None:
    written = [*goldens.GOLDENS, *consumer_group_goldens.GOLDENS]
    by_hand = {(type(golden.message).__name__, golden.version) for golden in written}
    for case in CASES:
        known = [judge.knows(case) for judge in JUDGES.values()]
        assert all(known) or (case.schema.name, case.version) in by_hand, case


def test_a_reply_has_the_versions_of_its_request() -> None:
    assert len(WIRE_APIS) == 42
    for api in WIRE_APIS.values():
        versions = (api.request.oldest, api.request.newest, api.request.flexible)
        assert (api.reply.oldest, api.reply.newest, api.reply.flexible) == versions, api


@each_judge
@each_api
def test_what_we_write_is_what_the_judge_writes(judge: Judge, api: WireApi) -> None:
    for case in cases_of(api, judge):
        for choices in contents():
            message = sample(case, choices)
            assert writer(case.schema, case.version)(message) == judge.body(case, message), case


@each_judge
@each_api
def test_what_the_judge_writes_is_read_as_the_same_message(judge: Judge, api: WireApi) -> None:
    for case in cases_of(api, judge):
        for choices in contents():
            message = sample(case, choices)
            assert reader(case.schema, case.version)(judge.body(case, message), 0) == message, case


@each_api
def test_tagged_fields_that_nobody_knows_are_read_over_in_every_struct(api: WireApi) -> None:
    judge = KafkaPython()
    flexible = [case for case in cases_of(api, judge) if case.is_flexible]
    for case in flexible:
        for choices in contents():
            message = sample(case, choices)
            plain, tagged = judge.body(case, message), judge.body_with_unknown_tags(case, message)
            assert len(tagged) > len(plain)
            assert reader(case.schema, case.version)(tagged, 0) == message, case
    assert flexible or api.request.flexible > api.request.newest or api.key in KNOWN_TO_ONE


@each_judge
@each_api
def test_a_whole_request_is_what_the_judge_makes_of_it(judge: Judge, api: WireApi) -> None:
    for case in cases_of(api, judge):
        if not case.is_request:
            continue
        for client_id in ("rdkafka", "größe", "", None, "x" * 32_767):
            message = sample(case, Filled())
            frame = encode_request(message, case.version, 0x01020304, client_id)
            expected = judge.frame(case, message, 0x01020304, client_id)
            assert frame == len(expected).to_bytes(4, "big") + expected, case


@each_judge
@each_api
def test_a_whole_reply_is_what_the_judge_makes_of_it(judge: Judge, api: WireApi) -> None:
    dialect = KafkaDialect(1 << 20, {api.message})
    for case in cases_of(api, judge):
        if case.is_request:
            continue
        codec = dialect.codec(api.key, case.version)
        assert codec is not None
        message = sample(case, Filled())
        expected = judge.frame(case, message, 0x01020304, None)
        assert codec.frame(0x01020304, message) == len(expected).to_bytes(4, "big") + expected, case


@each_api
def test_what_a_version_lacks_is_left_unsaid(api: WireApi) -> None:
    for case in cases_of(api):
        newest = sample(Case(case.api, case.schema.newest, case.schema), Filled(entries=1))
        left = carried(case.schema.group, newest, case.version)
        data = writer(case.schema, case.version)(newest)
        assert data == writer(case.schema, case.version)(left), case
        assert reader(case.schema, case.version)(data, 0) == left, case
