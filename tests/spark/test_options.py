"""Every option is checked before anything connects, and a refusal names it."""

import pickle

import pytest

from muster.net.security import Security
from pyspark_muster.options import OptionError, Options
from pyspark_muster.source import DefaultSource

NEEDED = {"bootstrap": "127.0.0.1:9390", "group": "delays", "topics": "flights, planes,flights"}


def test_the_three_needed_options_are_enough() -> None:
    options = Options.parse(NEEDED)
    assert options.topics == ("flights", "planes")
    assert options.starting_offsets == "earliest"
    assert options.max_records_per_batch == 1_000_000


def test_names_are_read_in_any_case_as_spark_hands_them_over() -> None:
    options = Options.parse(
        NEEDED | {"STARTINGOFFSETS": "Latest", "maxrecordsperbatch": "7", "failOnDataLoss": "FALSE"}
    )
    assert (options.starting_offsets, options.max_records_per_batch, options.fail_on_data_loss) == ("latest", 7, False)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"bootstrap": ""}, "'bootstrap' is needed: host:port"),
        ({"group": " "}, "'group' is needed"),
        ({"topics": ","}, "'topics' is needed"),
        ({"startingOffsets": "now"}, "'startingOffsets' is 'now': it must be 'earliest' or 'latest'"),
        ({"maxRecordsPerBatch": "0"}, "'maxRecordsPerBatch' is '0': it must be a whole number"),
        ({"maxRecordsPerBatch": "many"}, "'maxRecordsPerBatch' is 'many'"),
        ({"failOnDataLoss": "yes"}, "'failOnDataLoss' is 'yes': it must be 'true' or 'false'"),
        ({"heartbeatIntervalMs": "10000"}, "'heartbeatIntervalMs' is 10000: it must be less than 'sessionTimeoutMs'"),
        ({"topic": "flights"}, "'topic' is unknown; did you mean 'topics'"),
        ({"zzz": "1"}, "'zzz' is unknown; there are bootstrap, group, topics"),
    ],
)
def test_a_wrong_option_is_refused_by_name(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        Options.parse(NEEDED | wrong)


def test_the_source_refuses_wrong_options_when_it_is_made() -> None:
    assert DefaultSource.name() == "muster"
    with pytest.raises(OptionError, match="'group' is needed"):
        DefaultSource({"bootstrap": "127.0.0.1:9390", "topics": "flights"})


BROKERS = {
    "muster.broker.security.protocol": "SASL_PLAINTEXT",
    "muster.broker.sasl.mechanism": "PLAIN",
    "muster.broker.sasl.username": "reports",
    "muster.broker.sasl.password": "secret",
}
AS_REPORTS = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="reports", password="secret")


def test_how_servers_are_reached_is_said_by_the_usual_names() -> None:
    options = Options.parse(NEEDED | BROKERS | {"MUSTER.security.protocol": "SSL"})
    assert options.security == Security(protocol="SSL")
    assert options.broker_security == AS_REPORTS
    assert pickle.loads(pickle.dumps(options)) == options
    assert "secret" not in repr(options)
    assert Options.parse(NEEDED).security is None


def test_the_drivers_environment_says_what_no_option_does() -> None:
    given = {name: value for name, value in BROKERS.items() if not name.endswith("password")}
    options = Options.parse(
        NEEDED | given, {"MUSTER_BROKER_SASL_PASSWORD": "secret", "MUSTER_BROKER_SASL_USERNAME": "somebody"}
    )
    assert options.broker_security == AS_REPORTS


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"muster.sasl.pasword": "hidden"}, "'muster.sasl.pasword' is unknown; did you mean 'muster.sasl.password'"),
        ({"muster.security.protocol": "TLS"}, "that begin with 'muster.': 'TLS' is no security protocol"),
        ({"muster.security.protocol": "SSL", "muster.ssl.ca.location": "/nowhere"}, "/nowhere: cannot be read"),
        (
            {name.replace("broker.", ""): value for name, value in BROKERS.items()},
            "native protocol has no SASL",
        ),
    ],
)
def test_what_cannot_be_is_refused_without_telling_a_password(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence) as refused:
        Options.parse(NEEDED | wrong)
    assert "secret" not in str(refused.value) and "hidden" not in str(refused.value)
