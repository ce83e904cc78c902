import pytest

from membership.events import NodeAddress
from muster.net.bootstrap import Bootstrap, parse_bootstrap
from muster.net.dialects import ClientDialect


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ("one:1", None, Bootstrap((NodeAddress("one", 1),), ClientDialect.NATIVE)),
        ("native://one", None, Bootstrap((NodeAddress("one", 9390),), ClientDialect.NATIVE)),
        ("kafka://one:1, two", None, Bootstrap((NodeAddress("one", 1), NodeAddress("two", 9092)), ClientDialect.KAFKA)),
        ("kafka://[::1]:7", None, Bootstrap((NodeAddress("::1", 7),), ClientDialect.KAFKA)),
        ("one", "kafka", Bootstrap((NodeAddress("one", 9092),), ClientDialect.KAFKA)),
        ("kafka://one:1", "kafka", Bootstrap((NodeAddress("one", 1),), ClientDialect.KAFKA)),
        ("one:1", ClientDialect.NATIVE, Bootstrap((NodeAddress("one", 1),), ClientDialect.NATIVE)),
    ],
)
def test_the_bootstrap_says_which_dialect_unless_the_setting_does(
    text: str, dialect: str | None, expected: Bootstrap
) -> None:
    assert parse_bootstrap(text, dialect) == expected


@pytest.mark.parametrize(
    ("text", "dialect", "sentence"),
    [
        ("kafka://one:1", "native", "say it once"),
        ("one:1", "klingon", "'klingon' is no dialect: 'native' or 'kafka' is wanted"),
        ("http://one:1", None, "'http' is no dialect"),
        ("kafka://one:1,kafka://two:2", None, "is no dialect"),
        ("kafka://", None, "say 127.0.0.1:9092"),
    ],
)
def test_what_says_no_dialect_or_two_is_refused_with_a_sentence(text: str, dialect: str | None, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_bootstrap(text, dialect)


def test_a_broker_beside_musterd_that_cannot_be_reached_is_named_as_one_with_the_way_around_it() -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    broker = NodeAddress("broker-1", 9092, 1, "kafka")
    said = parse_bootstrap("127.0.0.1:9390").cannot_connect(broker, refused)
    assert said.startswith("cannot connect to broker-1:9092: Connection refused. It is a broker beside musterd")
    assert "kafka://" in said
    assert "beside" not in parse_bootstrap("127.0.0.1:9390").cannot_connect(NodeAddress("h", 1), refused)


@pytest.mark.parametrize("given", [["one:1"], {"bootstrap.servers": "one:1"}, None])
def test_a_bootstrap_that_is_no_text_is_refused_as_such(given: object) -> None:
    """Other clients take lists, or everything in one mapping."""
    with pytest.raises(ValueError, match="a text is wanted"):
        parse_bootstrap(given)  # type: ignore[arg-type]
