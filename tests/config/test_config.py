"""Sources of values, and their precedence."""

from collections.abc import Mapping

import msgspec
import pytest

from coordinator.config.config import KEYS, Address, Config, ConfigError, load_config
from coordinator.config.keys import Addresses, Ports, Secret


def load(
    *arguments: str, environment: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
) -> Config:
    def read_file(path: str) -> bytes:
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory")
        return (files or {})[path].encode()

    return load_config(arguments, environment or {}, read_file)


def refusal(
    *arguments: str, environment: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
) -> str:
    with pytest.raises(ConfigError) as raised:
        load(*arguments, environment=environment, files=files)
    return str(raised.value)


def test_nothing_said_is_the_defaults() -> None:
    config = load()
    assert config == Config()
    assert (config.native, config.kafka, config.http) == (
        Address("127.0.0.1", 9390),
        Address("127.0.0.1", 9092),
        Address("127.0.0.1", 9391),
    )
    assert config.data_dir == "./muster-data"


def test_flags_win_over_set_over_environment_over_file_over_default() -> None:
    file = {"m.toml": 'data.dir = "file"\nnode.id = 2\ngroup.max.size = 20\nmax.groups = 20\n'}
    environment = {"MUSTER_DATA_DIR": "environment", "MUSTER_NODE_ID": "3", "MUSTER_GROUP_MAX_SIZE": "30", "HOME": "x"}
    config = load(
        "--data-dir", "flag", "--set", "data.dir=set", "--set", "node.id=4", "--config", "m.toml",
        environment=environment, files=file,
    )  # fmt: skip
    assert (config.data_dir, config.node_id, config.group_max_size, config.max_groups) == ("flag", 4, 30, 20)
    assert config.num_partitions == Config().num_partitions


def test_a_flag_wins_wherever_it_stands() -> None:
    assert load("--data-dir", "flag", "--set", "data.dir=set").data_dir == "flag"


def test_the_last_of_two_equal_flags_wins() -> None:
    assert load("--set", "node.id=4", "--set=node.id=5").node_id == 5


@pytest.mark.parametrize(
    "text", ["group.max.size = 7", "[group]\nmax.size = 7", '"group.max.size" = 7', '[group.max]\nsize = "7"']
)
def test_nested_tables_are_dots(text: str) -> None:
    assert load("--config", "m.toml", files={"m.toml": text}).group_max_size == 7


def test_listeners_are_addresses_or_off() -> None:
    config = load("--native=[::1]:0", "--http", "off", "--advertised", "native=muster.example.net:1")
    assert config.native == Address("::1", 0)
    assert str(config.native) == "[::1]:0"
    assert config.http is None
    assert config.advertised_native == Address("muster.example.net", 1)


def test_the_cluster_to_stand_in_front_of_is_named_by_some_of_its_brokers() -> None:
    config = load("--upstream", "one:1, two:2", "--set", "upstream.listener.ports=7000")
    assert config.upstream_servers == Addresses((Address("one", 1), Address("two", 2)))
    assert config.upstream_listener_ports == Ports(7000, 7000)
    assert Config().upstream_servers is None


@pytest.mark.parametrize(
    "setting",
    [
        "upstream.servers=one",
        "upstream.servers=one:0",
        "upstream.servers=one:1,",
        "upstream.listener.ports=9-8",
        "upstream.offsets=no",
    ],
)
def test_what_names_no_cluster_or_no_ports_is_refused(setting: str) -> None:
    assert "allowed" in refusal("--set", setting)


def test_in_front_of_a_cluster_there_is_a_listener_to_begin_at() -> None:
    assert "to begin at" in refusal("--upstream", "one:1", "--kafka", "off")


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "[::]", "muster.example.net"])
def test_an_address_off_loopback_needs_the_open_flag(host: str) -> None:
    sentence = refusal("--native", f"{host}:9390")
    assert sentence.startswith(f"native = {host}:9390 (--native): ")
    assert "--open-to-network" in sentence
    assert load("--native", f"{host}:9390", "--open-to-network").native is not None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "[::1]"])
def test_loopback_is_open_to_nobody_else(host: str) -> None:
    assert load("--http", f"{host}:1").open_to_network is False


def test_the_kafka_dialect_listens_where_it_is_told_and_on_loopback_unless_the_network_is_trusted() -> None:
    assert load("--kafka", "127.0.0.1:19092").kafka == Address("127.0.0.1", 19092)
    assert load("--kafka", "off").kafka is None
    assert refusal("--kafka", "0.0.0.0:9092").startswith("kafka = 0.0.0.0:9092 (--kafka): clients would need no login")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--set", "group.max.size=0"), "group.max.size = 0 (--set): a whole number from 1 to 2147483647 is allowed"),
        (
            ("--set", "group.max.size=2.5"),
            "group.max.size = 2.5 (--set): a whole number from 1 to 2147483647 is allowed",
        ),
        (
            ("--set", "auto.create.topics.enable=yes"),
            "auto.create.topics.enable = yes (--set): true or false is allowed",
        ),
        (("--native", "9390"), "native = 9390 (--native): HOST:PORT or off is allowed"),
        (("--native", ":9390"), "native = :9390 (--native): HOST:PORT or off is allowed"),
        (("--http", "localhost:65536"), "http = localhost:65536 (--http): HOST:PORT or off is allowed"),
        (("--data-dir", ""), "data.dir =  (--data-dir): a text that is not empty is allowed"),
        (
            ("--advertised", "http=h:0"),
            "advertised.http = h:0 (--advertised): HOST:PORT with a port from 1 to 65535 is allowed",
        ),
        (
            ("--advertised", "smtp=h:25"),
            "--advertised smtp=h:25: 'smtp' is no kind of listener; native, kafka and http are allowed",
        ),
        (("--advertised", "h:25"), "--advertised h:25: KIND=HOST:PORT is allowed"),
        (("--set", "node.id"), "--set node.id: KEY=VALUE is allowed"),
        (("--set",), "--set needs a value"),
        (("--dat-dir", "x"), "--dat-dir is no flag of musterd; did you mean --data-dir?"),
        (("--chek",), "--chek is no flag of musterd; did you mean --check?"),
        (("x",), "x is no flag of musterd; musterd --help lists them"),
        (
            ("--native", "off", "--kafka", "off", "--http", "off"),
            "native = off (--native): native, kafka and http are all off; one of them must listen",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    assert refusal(*arguments) == sentence


def test_a_wrong_value_is_refused_even_where_another_wins() -> None:
    sentence = refusal("--set", "node.id=1", environment={"MUSTER_NODE_ID": "one"})
    assert sentence.startswith("node.id = one (MUSTER_NODE_ID in the environment): ")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("node.id = true", "node.id = true (in m.toml): a whole number"),
        ("node.id = 1.5", "node.id = 1.5 (in m.toml): a whole number"),
        ("node.id = [1]", "node.id = [1] (in m.toml): a whole number"),
        ("native = 9390", "native = 9390 (in m.toml): HOST:PORT or off"),
        ("node.id = ", "--config m.toml: is not a TOML file: "),
    ],
)
def test_a_wrong_file_is_refused(text: str, start: str) -> None:
    assert refusal("--config", "m.toml", files={"m.toml": text}).startswith(start)


def test_a_file_that_is_not_there_is_named() -> None:
    assert refusal("--config", "gone.toml") == "--config gone.toml: cannot be read: No such file or directory"


def test_an_unknown_key_names_the_nearest() -> None:
    assert refusal("--set", "group.max.sice=3") == (
        "group.max.sice (--set) is no key of musterd; did you mean group.max.size?"
    )
    assert refusal(environment={"MUSTER_DATA_DIRR": "x"}).endswith("did you mean data.dir?")
    assert refusal("--set", "xyzzy=3").endswith("is no key of musterd; musterd --help lists them")


def test_what_kubernetes_adds_for_a_service_called_muster_is_not_for_us() -> None:
    environment = {"MUSTER_SERVICE_HOST": "10.0.0.1", "MUSTER_PORT": "tcp://10.0.0.1:9390", "MUSTER_PORT_9390_TCP": "x"}
    environment["MUSTER_BOOTSTRAP"] = "the command's"
    assert load(environment=environment) == Config()


def test_a_ratio_is_a_number_from_0_to_1() -> None:
    assert load("--set", "log.cleaner.min.cleanable.ratio=0.25").log_cleaner_min_cleanable_ratio == 0.25
    assert load("--set", "log.cleaner.min.cleanable.ratio=1").log_cleaner_min_cleanable_ratio == 1.0
    for wrong in ("1.5", "-0.1", "nan", "half", ""):
        said = refusal("--set", f"log.cleaner.min.cleanable.ratio={wrong}")
        assert said == f"log.cleaner.min.cleanable.ratio = {wrong} (--set): a number from 0 to 1 is allowed"


def test_keys_of_a_cluster_that_is_not_named_are_warned_of_by_name() -> None:
    only = load("--set", "upstream.refresh.ms=100")
    assert only.warnings == (
        "upstream.refresh.ms has no effect without upstream.servers (--upstream): it is about a Kafka cluster",
    )
    both = load("--set", "upstream.ask.timeout.ms=7", environment={"MUSTER_UPSTREAM_OFFSETS": "ignore"})
    assert both.warnings[0].startswith("upstream.ask.timeout.ms, upstream.offsets have no effect without")
    assert load("--set", "upstream.refresh.ms=5000").warnings == ()  # the default, as a sample file has it
    assert load("--set", "upstream.refresh.ms=100", "--upstream", "b:9092").warnings == ()


def test_a_kafka_key_that_is_not_honoured_warns_once() -> None:
    config = load(
        "--set", "offsets.commit.timeout.ms=1", "--set", "offsets.commit.timeout.ms=2",
        environment={"MUSTER_SSL_KEYSTORE_LOCATION": "x"},
    )  # fmt: skip
    assert len(config.warnings) == 2
    assert config.warnings[1].startswith(
        "offsets.commit.timeout.ms (--set) is a key of Kafka's that is not honoured here"
    )
    assert "tls.certificate.location" in config.warnings[0]


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("authorizer.other=x", "authorizer.class.name"),
        ("sasl.jaas.config=x required password=secret;", "sasl.enabled.mechanisms"),
        ("ssl.client.auth=required", "tls.client.ca.location"),
        ("ssl.client.auth=requested", "tls.client.ca.location"),
        ("listeners=PLAINTEXT://:9092,SASL_SSL://:9093", "tls.certificate.location"),
        ("listeners=ssl://0.0.0.0:9092", "tls.certificate.location"),
        ("listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT", "tls.certificate.location"),
        ("listener.security.protocol.map=OUTSIDE:SSL", "tls.certificate.location"),
    ],
)
def test_a_kafka_key_that_would_protect_a_broker_ends_the_start(setting: str, hint: str) -> None:
    key, _, value = setting.partition("=")
    sentence = refusal("--set", setting)
    assert sentence.startswith(f"{key} (--set) would protect a Kafka broker and is not honoured here: ")
    assert hint in sentence and "secret" not in sentence
    assert refusal("--config", "f", files={"f": f'{key} = "{value}"'}).startswith(f"{key} (in f) would protect")
    variable = f"MUSTER_{key.upper().replace('.', '_')}"
    assert refusal(environment={variable: value}).startswith(f"{key} ({variable} in the environment) would protect")


@pytest.mark.parametrize(
    "setting",
    [
        "ssl.client.auth=none",
        "listeners=PLAINTEXT://ssl.example.net:9092",
        "listener.security.protocol.map=INSIDE:PLAINTEXT",
        "ssl.keystore.location=/etc/kafka/keystore.jks",
    ],
)
def test_a_kafka_key_that_protects_nothing_by_itself_warns(setting: str) -> None:
    (warning,) = load("--set", setting).warnings
    assert "is a key of Kafka's that is not honoured here" in warning


def test_secure_listeners_in_a_list_are_found() -> None:
    assert "would protect" in refusal("--config", "f", files={"f": 'listeners = ["PLAINTEXT://:9092", "SSL://:9093"]'})


def test_limits_that_depend_on_each_other_are_checked_together() -> None:
    assert refusal("--set", "group.max.session.timeout.ms=10") == (
        "group.max.session.timeout.ms = 10 (--set): group.min.session.timeout.ms (6000) or more is allowed"
    )
    assert refusal("--set", "wal.segment.bytes=1048576") == (
        "offsets.topic.max.message.bytes = 16777216 (the default): less than wal.segment.bytes (1048576) is allowed"
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ((), 168 * 3_600_000),
        (("log.retention.hours=1",), 3_600_000),
        (("log.retention.hours=1", "log.retention.minutes=2"), 120_000),
        (("log.retention.minutes=2", "log.retention.ms=3"), 3),
        (("log.retention.ms=-1",), None),
    ],
)
def test_the_finest_retention_speaks_first(settings: tuple[str, ...], expected: int | None) -> None:
    arguments = [part for setting in settings for part in ("--set", setting)]
    assert load(*arguments).retention_ms == expected


SECURE = (
    "tls.certificate.location=c.pem",
    "upstream.security.protocol=SASL_SSL",
    "upstream.sasl.username=u",
    "upstream.sasl.password=p",
    "upstream.ssl.certificate.location=c.pem",
)
NEED_ACCOUNTS = {
    "super.users",
    "allow.everyone.if.no.acl.found",
    "connections.max.reauth.ms",
    "http.metrics.without.login",
    "initial.admin",
}
GUARDED = (
    "sasl.enabled.mechanisms=PLAIN",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
)
TOKENS = ("sasl.enabled.mechanisms=OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url=https://a.example/keys")


def test_every_key_can_be_set_in_every_way() -> None:
    for key in KEYS.values():
        examples = {"int": str(key.lowest), "bool": "true", "float": "0.5", "str": "x", "Address": "127.0.0.1:1"}
        examples |= {"Addresses": "127.0.0.1:1,[::1]:2", "Ports": "7-9", "UpstreamOffsets": "ignore"}
        examples |= {"SecurityProtocol": "SASL_SSL", "SaslMechanism": "SCRAM-SHA-512", "NameCheck": "none"}
        examples |= {"ListenerKinds": "http,kafka", "UnguardedKinds": "http", "Secret": "x", "Hosts": "a.example,b"}
        examples |= {"Names": "a,b", "Mechanisms": "PLAIN,SCRAM-SHA-256", "Principals": "User:CN=a,O=b;User:c"}
        examples |= {"Audiences": "a,b", "AuthorizerClass": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
        examples["str"] = "RULE:^CN=(.*)$/$1/L" if key.name.startswith("ssl.") else "x"
        examples |= {"RebalanceProtocols": "classic", "AssignorNames": "range", "MigrationPolicy": "upgrade"}
        examples |= {"OffsetsLog": "local", "StandbyShards": "all"}
        examples |= {"BackwardCommits": "allowed", "WebhookUrls": "https://a.example/x,http://b", "EventTypes": "note"}
        example = "root:secret" if key.name == "initial.admin" else examples[key.type.__name__]
        if key.name.startswith("group.consumer.") and key.type is int:
            example = key.show(key.default)  # others bound it
        settings = ["--set", "group.min.session.timeout.ms=0"]
        if key.name in NEED_ACCOUNTS:
            settings += [part for one in GUARDED for part in ("--set", one)]
        if key.name.startswith("sasl.oauthbearer."):
            settings += [part for one in TOKENS if not one.startswith(f"{key.name}=") for part in ("--set", one)]
            example = "https://b.example/keys" if key.name.endswith(".url") else example
        if key.name.startswith(("tls.", "upstream.s")):  # some are nothing without others
            settings += [part for one in SECURE if not one.startswith(f"{key.name}=") for part in ("--set", one)]
        by_set = load(*settings, "--set", f"{key.name}={example}") if "wal.segment" not in key.name else None
        if by_set is not None:
            assert str(key.show(getattr(by_set, key.field))) == ("(hidden)" if key.type is Secret else example)
            by_environment = load(*settings, environment={key.environment: example})
            # A warning says where the value came from.
            assert msgspec.structs.replace(by_environment, warnings=by_set.warnings) == by_set


def test_every_default_is_allowed_and_every_field_but_the_warnings_is_a_key() -> None:
    assert {key.field for key in KEYS.values()} == set(Config.__struct_fields__) - {"warnings"}
    for key in KEYS.values():
        if key.default is not None:
            assert key.parse(key.show(key.default)) == key.default


def test_a_config_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Config().node_id = 2  # type: ignore[misc]
    assert msgspec.structs.replace(Config(), node_id=2).node_id == 2
