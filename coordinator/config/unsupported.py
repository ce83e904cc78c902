"""Keys of Kafka's broker that are not honoured, each with the reason; when given, they warn once.

A key that asks for protection we do not give stops the start: its author would believe to be protected. A key that is
neither here nor in `Config` stops the start too: it is more often a typing error than a wish.
"""

import re
from collections.abc import Callable
from typing import Final

_NO_REPLICATION: Final = "there is no replication; one node keeps its data"
_NO_OTHER_KINDS: Final = "share and streams groups are not part of this version"
_NO_TRANSACTIONS: Final = "there are no transactions"
_CLIENT_CERTIFICATES: Final = "tls.client.ca.location lets in only clients with a certificate"
_NO_ACLS: Final = "use authorizer.class.name, super.users and allow.everyone.if.no.acl.found"
_LISTENERS: Final = "use native, kafka and http; tls.certificate.location makes them speak TLS"
_OWN_TLS: Final = (
    "use tls.certificate.location, tls.key.location and tls.client.ca.location; towards brokers upstream.ssl.*"
)
_OWN_SASL: Final = (
    "use sasl.enabled.mechanisms; in front of brokers clients log in there, and upstream.sasl.* is this node's own "
    "login"
)
_ONE_THREAD: Final = "one node is one loop; it has no thread pools"
_NO_CLEANER_KNOBS: Final = "cleaning runs in slices of the one loop: cleaning.slice.bytes"
_ONE_LOG: Final = "the write-ahead log is synced before any reply that promises durability"

UNHONOURED: Final = {
    "advertised.listeners": "use --advertised KIND=HOST:PORT",
    "background.threads": _ONE_THREAD,
    "broker.id": "use node.id",
    "broker.rack": _NO_REPLICATION,
    "compression.type": "batches are kept as their producer sent them",
    "default.replication.factor": _NO_REPLICATION,
    "delete.topic.enable": "topics can always be deleted",
    "group.coordinator.append.linger.ms": "what arrives during a sync shares the next one; nothing lingers",
    "group.coordinator.new.enable": "there is one coordinator",
    "group.coordinator.threads": _ONE_THREAD,
    "listener.security.protocol.map": _LISTENERS,
    "listeners": _LISTENERS,
    "log.cleaner.enable": "compacted logs are always cleaned",
    "log.cleaner.io.buffer.load.factor": _NO_CLEANER_KNOBS,
    "log.cleaner.io.buffer.size": _NO_CLEANER_KNOBS,
    "log.cleaner.io.max.bytes.per.second": _NO_CLEANER_KNOBS,
    "log.cleaner.threads": _NO_CLEANER_KNOBS,
    "log.dir": "use data.dir",
    "log.dirs": "use data.dir",
    "log.roll.hours": "segments roll by size and after seven days; a topic's segment.ms says otherwise",
    "log.roll.ms": "segments roll by size and after seven days; a topic's segment.ms says otherwise",
    "min.insync.replicas": _NO_REPLICATION,
    "num.io.threads": _ONE_THREAD,
    "num.network.threads": _ONE_THREAD,
    "num.recovery.threads.per.data.dir": _ONE_THREAD,
    "offsets.commit.required.acks": _NO_REPLICATION,
    "offsets.commit.timeout.ms": "a reply that waits for the disk has no deadline of its own",
    "offsets.load.buffer.size": "loading reads a segment at a time",
    "offsets.topic.compression.codec": "the offsets log is not compressed",
    "offsets.topic.replication.factor": _NO_REPLICATION,
    "process.roles": "there is no controller",
    "queued.max.requests": _ONE_THREAD,
    "socket.listen.backlog.size": "the system's own is used",
    "socket.receive.buffer.bytes": "the system's own is used",
    "socket.send.buffer.bytes": "the system's own is used",
    "transactional.id.expiration.ms": _NO_TRANSACTIONS,
    "unclean.leader.election.enable": _NO_REPLICATION,
}

FAMILIES: Final = {
    "authorizer.": _NO_ACLS,
    "controller.": "there is no controller",
    "group.share.": _NO_OTHER_KINDS,
    "group.streams.": _NO_OTHER_KINDS,
    "log.flush.": _ONE_LOG,
    "replica.": _NO_REPLICATION,
    "sasl.": _OWN_SASL,
    "security.inter.broker.protocol": "use upstream.security.protocol",
    "ssl.": _OWN_TLS,
    "transaction.": _NO_TRANSACTIONS,
    "zookeeper.": "there is no ZooKeeper",
}


def why_not_honoured(key: str) -> str | None:
    """Return the reason; None for a key that is no such key of Kafka's."""
    if key in UNHONOURED:
        return UNHONOURED[key]
    return next((reason for family, reason in FAMILIES.items() if key.startswith(family)), None)


def _always(raw: object) -> bool:
    return True


def _asks_for_certificates(raw: object) -> bool:
    return str(raw).strip().lower() != "none"


def _names_secure_listener(raw: object) -> bool:
    return any(map(_is_secure, _LISTENER_NAME.findall(str(raw))))


def _is_secure(raw: object) -> bool:
    text = str(raw).upper()
    return "SSL" in text or "SASL" in text


_LISTENER_NAME: Final = re.compile(r"(\w+)://")
_PROTECTION: Final[dict[str, Callable[[object], bool]]] = {
    "authorizer.": _always,
    "listener.security.protocol.map": _is_secure,
    "listeners": _names_secure_listener,
    "sasl.": _always,
    "ssl.client.auth": _asks_for_certificates,
}
"""Keys, and families of keys (with a dot at the end), that restrict access at a broker, and a test of the values that
do."""


def why_refused(key: str, raw: object) -> str | None:
    """Return the reason to refuse the start: the value asks for protection that it would not give. None for all other
    keys."""
    for name, protects in _PROTECTION.items():
        if (key == name or (name.endswith(".") and key.startswith(name))) and protects(raw):
            return why_not_honoured(key)
    return None
