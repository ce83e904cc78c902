"""Every option is checked before anything connects, and a refusal names it."""

import pytest

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
