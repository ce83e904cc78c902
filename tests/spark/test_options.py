"""Every option is checked before anything connects, and a refusal names it."""

import pickle

import pytest

from muster.client.member import DEFAULT_ASSIGNORS
from muster.net.security import Security
from pyspark_muster.errors import OptionError
from pyspark_muster.options import Options
from pyspark_muster.source import DefaultSource
from pyspark_muster.synonyms import in_our_names

NEEDED = {"bootstrap": "127.0.0.1:9390", "group": "delays", "topics": "flights, planes,flights"}


def test_the_three_needed_options_are_enough() -> None:
    options = Options.parse(NEEDED)
    assert options.topics == ("flights", "planes")
    assert options.starting_offsets == "earliest"
    assert options.max_records_per_batch == 1_000_000


def test_what_keeps_a_query_alive_has_defaults_that_are_safe() -> None:
    options = Options.parse(NEEDED)
    assert (options.isolation_level, options.new_checkpoint, options.sole_member) == ("read_committed", "group", False)
    assert (options.outage_timeout_ms, options.assignors) == (600_000, DEFAULT_ASSIGNORS)
    given = {
        "assignors": "cooperative-sticky",
        "newcheckpoint": "startingoffsets",
        "isolationLevel": "READ_UNCOMMITTED",
    }
    options = Options.parse(NEEDED | given)
    assert (options.assignors, options.new_checkpoint) == (("cooperative-sticky",), "startingOffsets")
    assert options.isolation_level == "read_uncommitted"
    assert Options.parse({"bootstrap": "b:1", "group": "g", "topicsPattern": "fl.*"}).topics_pattern == "fl.*"


def test_the_coordinator_assigns_only_where_that_is_asked_for() -> None:
    assert Options.parse(NEEDED).group_protocol == "classic"
    for protocol in ("consumer", "auto"):
        options = Options.parse(NEEDED | {"groupProtocol": protocol.title()})
        assert options.group_protocol == protocol
    given = {"kafka.bootstrap.servers": "b:1", "kafka.group.id": "g", "subscribe": "t", "kafka.group.protocol": "auto"}
    assert Options.parse(in_our_names(given, latest=True)).group_protocol == "auto"


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
        ({"startingOffsets": "{}"}, "'startingOffsets' is '{}': it must be JSON like"),
        ({"startingOffsets": '{"fligths": {"0": 1}}'}, "'startingOffsets' names fligths: 'topics' does not"),
        ({"maxRecordsPerBatch": "0"}, "'maxRecordsPerBatch' is '0': it must be a whole number"),
        ({"maxRecordsPerBatch": "many"}, "'maxRecordsPerBatch' is 'many'"),
        ({"failOnDataLoss": "yes"}, "'failOnDataLoss' is 'yes': it must be 'true' or 'false'"),
        ({"heartbeatIntervalMs": "10000"}, "'heartbeatIntervalMs' is 10000: it must be less than 'sessionTimeoutMs'"),
        ({"topicsPattern": "fl.*"}, "'topics' and 'topicsPattern' exclude each other"),
        ({"topics": "", "topicsPattern": "fl["}, "'topicsPattern' is 'fl.', which is no regular expression"),
        ({"topics": "", "topicsPattern": "fl.*", "soleMember": "true"}, "'soleMember' needs 'topics'"),
        ({"topics": "flights,__consumer_offsets"}, "each commit of the query would write a record there"),
        ({"isolationLevel": "serializable"}, "'isolationLevel' is 'serializable': it must be 'read_committed' or"),
        ({"newCheckpoint": "begin"}, "'newCheckpoint' is 'begin': it must be 'group' or 'startingOffsets'"),
        ({"assignors": "fair"}, "'assignors' is 'fair': .*fair"),
        ({"groupProtocol": "streams"}, "'groupProtocol' is 'streams': it must be 'classic' or 'consumer' or 'auto'"),
        ({"groupProtocol": "consumer", "assignors": "range"}, "'assignors' is for groups whose members assign"),
        ({"groupProtocol": "auto", "soleMember": "true"}, "'groupProtocol' is 'auto': 'soleMember' needs 'classic'"),
        ({"minRecordsPerBatch": "9", "maxRecordsPerBatch": "8"}, "'minRecordsPerBatch' is 9: it must not be more"),
        ({"outageTimeoutMs": "-1"}, "'outageTimeoutMs' is '-1'"),
        ({"topic": "flights"}, "'topic' is unknown; did you mean 'topics'"),
        ({"zzz": "1"}, "'zzz' is unknown; there are bootstrap, group, topics"),
    ],
)
def test_a_wrong_option_is_refused_by_name(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        Options.parse(NEEDED | wrong)


def test_the_source_refuses_wrong_options_when_it_is_loaded() -> None:
    assert DefaultSource.name() == "muster"
    with pytest.raises(OptionError, match="'topics' is needed"):
        DefaultSource({"bootstrap": "127.0.0.1:9390", "group": "delays"}).schema()


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
    ],
)
def test_what_cannot_be_is_refused_without_telling_a_password(wrong: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence) as refused:
        Options.parse(NEEDED | wrong)
    assert "secret" not in str(refused.value) and "hidden" not in str(refused.value)
