"""The audit log of a node: logins, refusals and administration, and no secret."""

import json
from typing import Any

import pytest

from coordinator.accounts.records import AclRecord
from coordinator.accounts.requests import ACCESS
from coordinator.config.accounts import AuthorizerClass, Principals
from coordinator.config.keys import Secret
from coordinator.handlers.audited import FACTS
from coordinator.node.effects import Effect, WriteAudit
from coordinator.node.events import Call, Opened, PasswordGiven, Stopping
from protocol.errors import ErrorCode
from protocol.messages import Message
from protocol.messages.acls import (
    AclBindingFilter,
    AclCreation,
    AclOperation,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    ScramDeletion,
    ScramUpsertion,
)
from protocol.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigs, ResourceType
from protocol.messages.groups import ApplyOffsets, DeleteGroups, Heartbeat, HeartbeatReply, ListNotes, OffsetChange
from protocol.messages.offsets import OffsetCommit, OffsetCommitPartition, OffsetCommitTopic
from protocol.messages.reports import DrainMembers
from protocol.messages.topics import (
    CreatableTopic,
    CreatePartitions,
    CreateTopics,
    DeletableTopic,
    DeleteTopics,
    GrowingTopic,
    Metadata,
    MetadataTopic,
)
from tests.accounts.rig import NOW
from tests.node.test_access_rules import GROUP, OP, TOPIC, rule
from tests.node.test_kafka import Peer
from tests.node.test_logins import LoginRig, log_in

SECRETS = ("secret", "another one", "salt of", "c2Fsd", "the salted")
ROOT = "User:alice"


class AuditRig(LoginRig):
    """A node with an audit log, an authorizer and a super user, who is Alice."""

    def __init__(self, **settings: Any) -> None:
        self.lines: list[dict[str, Any]] = []
        self.text = b""
        rules = {"authorizer_class_name": AuthorizerClass.STANDARD, "super_users": Principals(frozenset({ROOT}))}
        super().__init__(**{"audit_log_location": "audit.log", **rules, **settings})

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, WriteAudit):
            self.text += b"".join(effect.lines)
            self.lines += map(json.loads, effect.lines)
        else:
            super()._carry_out(effect)

    def told(self) -> list[dict[str, Any]]:
        lines, self.lines = self.lines, []
        return lines

    def ask_as(self, principal: str, message: Message) -> Any:
        self.step(Call(8, message, principal, "10.9.9.9"))
        self.wait(0)
        return self.replied.pop(8)


@pytest.fixture
def rig() -> AuditRig:
    return AuditRig()


def of(line: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in names)


def test_logins_are_told_with_who_from_where_and_how(rig: AuditRig) -> None:
    log_in(rig, Peer(rig, 1), "SCRAM-SHA-512")
    (line,) = rig.told()
    assert of(line, "event", "principal", "listener", "mechanism") == ("login", ROOT, "kafka", "SCRAM-SHA-512")
    assert line["host"] and line["time"].endswith("Z")
    log_in(rig, Peer(rig, 2), user="eve", password="another one")
    (line,) = rig.told()
    assert of(line, "event", "user", "principal", "why") == ("login failed", "eve", None, "wrong user or password")
    rig.step(PasswordGiven(5, "alice", Secret("secret"), "127.0.0.1", certificate="CN=alice serial=0C"))
    rig.end_check()
    rig.step(PasswordGiven(6, "alice", Secret("another one"), "127.0.0.1", certificate="CN=eve serial=0E"))
    rig.end_check()
    right, wrong = rig.told()
    assert of(right, "event", "principal", "host", "mechanism") == ("login", ROOT, "127.0.0.1", "Basic")
    assert (right["certificate"], wrong["certificate"]) == ("CN=alice serial=0C", "CN=eve serial=0E")
    assert of(wrong, "event", "user", "host", "listener") == ("login failed", "alice", "127.0.0.1", "http")


def test_names_in_certificates_are_told() -> None:
    rig = AuditRig(ssl_principal_mapping_rules="RULE:^CN=(.*?)$/$1/")
    for number, name in ((1, "billing"), (2, "other,x")):
        subject = ((("commonName", name),),) if number == 1 else ((("organizationName", name),),)
        rig.step(Opened(number, "kafka", "10.0.0.7", None, 5, subject))
    named, closed = rig.told()
    assert of(named, "event", "principal", "mechanism", "port") == ("login", "User:billing", "certificate", 5)
    assert closed["event"] == "login failed" and "mapping.rules" in closed["why"]


def test_a_refusal_names_what_was_lacking_and_the_client_is_not_told(rig: AuditRig) -> None:
    peer = Peer(rig, 1)
    log_in(rig, peer, user="bob")
    rig.told()
    for _ in range(5):
        (reply,) = peer.ask((Heartbeat("pay", 1, "m"), 4))
        assert isinstance(reply, HeartbeatReply) and reply.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    (line,) = rig.told()
    assert of(line, "event", "principal", "request", "lacked", "code") == (
        *("refused", "User:bob", "Heartbeat", "READ on group pay", "GROUP_AUTHORIZATION_FAILED"),
    )
    rig.node.core.accounts.write([AclRecord(rule(GROUP, OP.READ)._replace(principal="User:bob"), is_there=True)], NOW)
    commit = (OffsetCommitTopic("orders", (OffsetCommitPartition(0, 1),)),)
    peer.ask((OffsetCommit("pay", commit), 7))
    (line,) = rig.told()
    assert of(line, "request", "lacked") == ("OffsetCommit", "READ on topic orders")
    rig.step(Stopping())
    assert rig.told()[-1]["repeated"] == 4


def changes(rig: AuditRig, message: Message) -> list[tuple[Any, ...]]:
    """Changes in the one line about the request, which root sends over HTTP."""
    rig.ask_as(ROOT, message)
    lines = rig.told()
    assert len(lines) <= 1
    for line in lines:
        who = of(line, "event", "principal", "host", "listener", "request")
        assert who == ("administration", ROOT, "10.9.9.9", "http", type(message).__name__)
    return [of(one, "what", "before", "after") for line in lines for one in line["changes"]]


def test_of_a_request_that_names_many_topics_some_refusals_are_told_and_the_others_counted() -> None:
    rig = AuditRig()
    rig.ask_as("User:bob", Metadata(tuple(MetadataTopic(f"t{number}") for number in range(5_000))))
    assert len(rig.told()) == 100
    rig.wait(1_000)
    assert [(one["event"], one["times"]) for one in rig.told()] == [("left out", 4_900)]


def test_administration_is_told_with_the_values_before_and_after(rig: AuditRig) -> None:
    rig.told()
    upsert = ScramUpsertion("carol", 1, 4_096, b"the salt", b"the salted password")
    named = "user carol, SCRAM-SHA-256"
    assert changes(rig, AlterUserScramCredentials((), (upsert,))) == [(named, None, {"iterations": 4_096})]
    other = ScramUpsertion("carol", 1, 4_096, b"another salt", b"the salted password")
    assert changes(rig, AlterUserScramCredentials((), (other,))) == [
        (named, {"iterations": 4_096}, {"iterations": 4_096})
    ]
    assert changes(rig, AlterUserScramCredentials((ScramDeletion("carol", 1),), ())) == [
        (named, {"iterations": 4_096}, None)
    ]
    assert not changes(rig, AlterUserScramCredentials((ScramDeletion("carol", 1),), ())), "it failed"
    creation = AclCreation(TOPIC, "or", "User:bob", "*", AclOperation.READ, 3, 4)
    told = "acl: ALLOW READ on topic or (prefix) to User:bob from *"
    assert changes(rig, CreateAcls((creation,))) == [(told, None, True)]
    assert changes(rig, DeleteAcls((AclBindingFilter(1, None, 1, "User:bob", None, 1, 1),))) == [(told, True, None)]
    assert changes(rig, CreateTopics((CreatableTopic("orders", 2),))) == [("topic orders", None, {"partitions": 2})]
    grown = changes(rig, CreatePartitions((GrowingTopic("orders", 3),)))
    assert grown == [("topic orders", {"partitions": 2}, {"partitions": 3})]
    config = AlterConfigsResource(ResourceType.TOPIC, "orders", (AlterableConfig("retention.ms", 0, "5"),))
    assert changes(rig, IncrementalAlterConfigs((config,))) == [("topic orders, retention.ms", None, "5")]
    assert not changes(rig, IncrementalAlterConfigs((config,)))
    assert changes(rig, DeleteTopics((DeletableTopic("orders"),)))[0] == ("topic orders", {"partitions": 3}, None)


def test_acts_on_groups_are_told_and_notes_name_the_principal(rig: AuditRig) -> None:
    rig.ask_as(ROOT, CreateTopics((CreatableTopic("orders", 1),)))
    rig.told()
    change = OffsetChange("orders", 0, -1, 7)
    assert rig.ask_as(ROOT, ApplyOffsets("pay", (change,), "reset", "http", "10.9.9.9")).number == 0
    (line,) = rig.told()
    assert of(line, "event", "principal", "host", "request", "group") == (
        *("administration", ROOT, "10.9.9.9", "reset", "pay"),
    )
    assert line["changes"] == [{"what": "offset orders-0", "before": None, "after": 7}]
    rig.ask_as(ROOT, DeleteGroups(("pay",)))
    (line,) = rig.told()
    assert of(line, "principal", "request", "group") == (ROOT, "delete group", "pay")
    notes = rig.ask_as(ROOT, ListNotes("pay")).notes
    assert [note.origin.principal for note in notes] == [ROOT, ROOT]


def test_no_secret_is_in_any_line(rig: AuditRig) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        log_in(rig, Peer(rig, len(mechanism) * 7), mechanism)
        log_in(rig, Peer(rig, len(mechanism) * 7 + 1), mechanism, password="another one")
    rig.step(PasswordGiven(5, "alice", Secret("secret"), "127.0.0.1"))
    rig.end_check()
    rig.ask_as(ROOT, AlterUserScramCredentials((), (ScramUpsertion("carol", 1, 4_096, b"salt of", b"the salted"),)))
    credential = rig.node.core.accounts.users["alice"]
    keys = [key for one in credential.values() for key in (one.stored_key, one.server_key, one.salt)]
    assert len(rig.text) > 1_000
    for secret in (*(text.encode() for text in SECRETS), *keys):
        assert secret not in rig.text and secret.hex().encode() not in rig.text


def test_everything_that_changes_users_rules_topics_or_settings_is_told() -> None:
    of_groups = {DeleteGroups}  # told from their notes
    noted_nowhere = {DrainMembers}
    changing = {one for one in ACCESS if one.__name__.startswith(("Alter", "Create", "Delete", "Incremental"))}
    assert FACTS.keys() == changing - of_groups | noted_nowhere
