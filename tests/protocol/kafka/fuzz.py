"""Broken bytes for everything that parses bytes from the network: `python -m tests.protocol.kafka.fuzz --inputs N
--seed S`.

Each target is fed what once was valid, bent in a few places, and now and then noise. It may refuse what it is given in
its one documented way; any other exception, or an input that takes long, is a finding, printed so that it can be run
again.
"""

import argparse
import gc
import struct
import sys
import time
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

import cramjam
from crc32c import crc32c

from protocol import consumer_protocol
from protocol.apis import WIRE_APIS
from protocol.errors import ErrorCode, ProtocolViolation
from protocol.kafka.client import KafkaClient, encode_request
from protocol.kafka.reading import reader
from protocol.kafka.session import KafkaDialect
from protocol.kafka.writing import writer
from protocol.messages.node import ApiVersions, ErrorReply
from protocol.native import codec
from protocol.native.client import NativeClient
from protocol.native.methods import METHODS
from protocol.record_batch import (
    HEADER_BYTES,
    CorruptBatch,
    batches,
    check_batch,
    decode_batch,
    encode_batch,
    extent,
)
from protocol.record_compression import Compression
from protocol.record_writing import varint
from tests.node.fuzzed import node
from tests.protocol.kafka.bending import Run, Unforeseen, bend, expect
from tests.protocol.kafka.samples import CASES, Case, Chosen, sample
from tests.protocol.native import open_session

SLOW_S: Final = 1.0
FRAME_BYTES: Final = 1 << 20
DECOMPRESSED_BYTES: Final = 1 << 18


class Finding(NamedTuple):
    target: str
    data: bytes
    what: str


# ------------------------------------------------------------------------------------------------------------ targets


def _bodies(is_request: bool) -> Run:
    cases = [case for case in CASES if case.is_request == is_request]
    corpus: dict[Case, list[bytes]] = {}

    def run(random: Random) -> bytes:
        case = random.choice(cases)
        known = corpus.get(case)
        if known is None:
            write = writer(case.schema, case.version)
            known = corpus[case] = [write(sample(case, Chosen(random))) for _ in range(8)]
        data = bend(random.choice(known), random)
        expect(lambda: reader(case.schema, case.version)(data, 0), ProtocolViolation, data)
        return data

    return run


def _kafka_session() -> Run:
    spoken = [case for case in CASES if case.is_request and case.api.advertised]
    dialect = KafkaDialect(FRAME_BYTES, {api.message for api in WIRE_APIS.values()})
    frames: list[bytes] = []

    def run(random: Random) -> bytes:
        if len(frames) < 2_000:
            case = random.choice(spoken)
            name = random.choice((None, "", "client"))
            frames.append(encode_request(sample(case, Chosen(random)), case.version, random.getrandbits(31), name))
        chosen = random.choices(frames, k=random.randrange(1, 4))
        if random.random() < 0.5:
            data = bend(b"".join(chosen), random)
        else:
            bodies = [bend(frame[4:], random) for frame in chosen]
            data = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
        cut = random.randrange(len(data) + 1)

        def feed() -> None:
            session = dialect.open()
            for piece in (data[:cut], data[cut:]):
                session.receive_data(piece)
                while (request := session.next_request()) is not None:
                    session.encode_reply(request[0], ErrorReply(ErrorCode.NOT_COORDINATOR, "no"))
            session.take_data()

        expect(feed, ProtocolViolation, data)
        return data

    return run


def _kafka_client() -> Run:
    known = [case for case in CASES if not case.is_request and case.api.advertised]

    def run(random: Random) -> bytes:
        case = random.choice(known)
        request = ApiVersions() if case.api.message is ApiVersions else sample(_asking(case), Chosen(random))
        client = KafkaClient("fuzz", FRAME_BYTES)
        number, _ = client.encode_request(request, case.version)
        tags = b"\0" if case.is_flexible and case.api.message is not ApiVersions else b""
        body = number.to_bytes(4, "big") + tags + writer(case.schema, case.version)(sample(case, Chosen(random)))
        data = bend(len(body).to_bytes(4, "big") + body, random)
        expect(lambda: client.receive_data(data), ProtocolViolation, data)
        return data

    return run


def _asking(case: Case) -> Case:
    return case._replace(schema=case.api.request)


def _native() -> Run:
    frames: list[bytes] = []
    told = [case for case in CASES if case.version == case.schema.newest and case.schema.name in METHODS]

    def run(random: Random) -> bytes:
        if len(frames) < 500:
            message = sample(random.choice(told), Chosen(random))
            frames.append(codec.encode_request(random.randrange(100), message))
        data = bend(b"".join(random.choices(frames, k=random.randrange(1, 4))), random)
        cut = random.randrange(len(data) + 1)

        def feed() -> None:
            session = open_session(FRAME_BYTES)
            for piece in (data[:cut], data[cut:]):
                session.receive_data(piece)
                while (request := session.next_request()) is not None:
                    session.encode_reply(request[0], ErrorReply(ErrorCode.NOT_COORDINATOR, "no"))
            session.take_data()

        expect(feed, ProtocolViolation, data)
        return data

    return run


def _native_client() -> Run:
    replies = {method.reply: name for name, method in METHODS.items()}
    told = [case for case in CASES if case.version == case.schema.newest and case.schema.group.message in replies]
    frames: list[tuple[Case, bytes]] = []

    def run(random: Random) -> bytes:
        if len(frames) < 500:
            case = random.choice(told)
            frames.append((case, codec.encode_result(0, sample(case, Chosen(random)))))
        case, whole = random.choice(frames)
        client = NativeClient(FRAME_BYTES)
        client.encode_request(sample(_asking(case), Chosen(random)))
        data = bend(whole, random)
        expect(lambda: client.receive_data(data), ProtocolViolation, data)
        return data

    return run


_CODECS: Final[dict[Compression, Callable[[bytes], Any]]] = {
    Compression.GZIP: cramjam.gzip.compress,
    Compression.SNAPPY: cramjam.snappy.compress_raw,
    Compression.LZ4: cramjam.lz4.compress,
    Compression.ZSTD: cramjam.zstd.compress,
}


def compressed(batch: bytes, compression: Compression) -> bytes:
    """Return the batch with its records compressed, and length and checksum to match."""
    if compression is Compression.NONE:
        return batch
    whole = bytearray(batch[:HEADER_BYTES] + bytes(_CODECS[compression](batch[HEADER_BYTES:])))
    whole[22] |= compression
    struct.pack_into(">i", whole, 8, len(whole) - 12)
    struct.pack_into(">I", whole, 17, crc32c(bytes(whole[21:])))
    return bytes(whole)


def bomb(compression: Compression, size: int = 4 << 20) -> bytes:
    """Return a batch of a few kilobytes that decompresses to `size` bytes of zeros."""
    return compressed(encode_batch([(None, bytes(size))], timestamp_ms=1), compression)


def _record_batch() -> Run:
    plain = [
        encode_batch([(b"k", b"v")], timestamp_ms=1),
        encode_batch([(None, None), (b"", b"x" * 300), (b"key", b"value" * 40)], timestamp_ms=1, base_offset=7),
        encode_batch([(varint(n), b"value" * n) for n in range(20)], timestamp_ms=5, producer_id=3, producer_epoch=0),
    ]
    whole = [compressed(batch, compression) for batch in plain for compression in Compression]
    whole += [batch + other for batch in whole[:4] for other in whole[5:8]]
    bombs = [bomb(compression) for compression in _CODECS]

    def run(random: Random) -> bytes:
        data = bend(random.choice(bombs if random.random() < 0.01 else whole), random)
        expect(lambda: check_batch(data), CorruptBatch, data)
        expect(lambda: decode_batch(data, max_bytes=DECOMPRESSED_BYTES), CorruptBatch, data)
        expect(lambda: list(batches(data)), CorruptBatch, data)
        if len(data) >= 43:
            expect(lambda: extent(data), CorruptBatch, data)
        return data

    return run


def _subscription() -> Run:
    owned = (consumer_protocol.TopicPartitions("orders", (0, 1, 2)), consumer_protocol.TopicPartitions("größe", ()))
    subscription = consumer_protocol.Subscription(("orders", "größe"), b"user", owned, 7, "rack")
    whole = [consumer_protocol.encode_subscription(subscription, version) for version in range(4)]
    whole.append(consumer_protocol.encode_subscription(consumer_protocol.Subscription()))
    whole.append(consumer_protocol.encode_assignment(consumer_protocol.Assignment(owned, b"user")))

    def run(random: Random) -> bytes:
        data = bend(random.choice(whole), random)
        expect(lambda: consumer_protocol.decode_subscription(data), ProtocolViolation, data)
        expect(lambda: consumer_protocol.decode_assignment(data), ProtocolViolation, data)
        return data

    return run


TARGETS: Final[dict[str, Callable[[], Run]]] = {
    "kafka-requests": lambda: _bodies(is_request=True),
    "kafka-replies": lambda: _bodies(is_request=False),
    "kafka-session": _kafka_session,
    "kafka-client": _kafka_client,
    "native-session": _native,
    "native-client": _native_client,
    "record-batch": _record_batch,
    "subscription": _subscription,
    "node": node,
}


# ------------------------------------------------------------------------------------------------------------ running


def fuzz(name: str, inputs: int, seed: int, most_findings: int = 10) -> list[Finding]:
    """Return the findings of the first `inputs` inputs that the seed makes for this target."""
    random = Random(f"{name} {seed}")
    run = TARGETS[name]()
    findings: list[Finding] = []
    gc.collect()
    gc.freeze()  # what else this process holds is not looked through on an input's time
    for _ in range(inputs):
        began = time.process_time()  # others may keep the machine busy
        try:
            data = run(random)
        except Unforeseen as unforeseen:
            cause = "".join(traceback.format_exception(unforeseen.__cause__)[-3:])
            findings.append(Finding(name, unforeseen.data, cause))
        else:
            took = time.process_time() - began
            if took > SLOW_S:
                findings.append(Finding(name, data, f"took {took:.1f} s"))
        if len(findings) >= most_findings:
            break
    gc.unfreeze()
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description="Broken bytes for every decoder.")
    parser.add_argument("--inputs", type=int, default=20_000, help="for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)}; all by default")
    asked = parser.parse_args()
    found = 0
    for name in asked.targets or TARGETS:
        began = time.perf_counter()
        findings = fuzz(name, asked.inputs, asked.seed)
        found += len(findings)
        print(f"{name:16} {asked.inputs:>9,} inputs  {time.perf_counter() - began:7.1f} s  {len(findings)} findings")
        for finding in findings:
            print(f"  {finding.data[:400].hex()}\n  {finding.what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
