"""A connection of musterd's own to a broker that stops answering, on the loop that the daemon runs."""

import asyncio
from struct import pack

import pytest
import uvloop

from coordinator.gateway.io.broker_client import BrokerClient
from protocol.errors import ErrorCode
from protocol.kafka.login import LoginRefused, SaslClient
from protocol.messages.node import SaslAuthenticateReply, SaslHandshakeReply
from protocol.messages.topics import Metadata


async def _silent_after_versions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = await reader.read(1_000)
    metadata = pack(">hhhb", 3, 0, 12, 0)
    answer = request[8:12] + pack(">hb", 0, 2) + metadata + pack(">ib", 0, 0)  # ApiVersions 3: of Metadata alone
    writer.write(pack(">i", len(answer)) + answer)
    await reader.read()
    writer.close()


def test_all_who_wait_for_a_broker_that_says_nothing_are_told_so() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_asked_at_once(5)) == ["RequestFailed"] * 5


async def _asked_at_once(count: int) -> list[str]:
    server = await asyncio.start_server(_silent_after_versions, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    link = await BrokerClient.open(host, port, 5)
    asks = (link.ask(Metadata(None), 0.2 + number / 100) for number in range(count))
    answers = await asyncio.gather(*asks, return_exceptions=True)
    link.close()
    server.close()
    return [type(answer).__name__ for answer in answers]


@pytest.mark.parametrize("said", ["'secret' is no password of muster's", "no" * 10_000, "x" * 298 + "secret"])
def test_why_a_login_was_refused_is_told_in_short_and_without_the_password(said: str) -> None:
    login = SaslClient("PLAIN", "muster", "secret")
    login.begin()
    login.on_reply(SaslHandshakeReply(mechanisms=("PLAIN",)))
    with pytest.raises(LoginRefused) as refused:
        login.on_reply(SaslAuthenticateReply(ErrorCode.SASL_AUTHENTICATION_FAILED, said))
    told = str(refused.value)
    assert "secre" not in told
    assert said[:10].replace("secret", "***")[:4] in told
    assert len(told) < 350
