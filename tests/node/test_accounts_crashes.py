"""Crashes in the middle of administration: what was answered is there afterwards, wherever the machine stopped."""

from contextlib import suppress
from itertools import chain
from typing import Any

import pytest

from coordinator.accounts.scram import ScramMechanism
from coordinator.config.accounts import AuthorizerClass, Principals
from protocol.access_token import hash_of
from protocol.messages import Message
from protocol.messages.acls import (
    AclBindingFilter,
    AclCreation,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    ScramDeletion,
    ScramUpsertion,
)
from protocol.messages.quotas import AlterClientQuotas, AlteringQuota, QuotaChange, QuotaEntity
from protocol.messages.tokens import CreateToken, DeleteToken
from tests.node.node_rig import NodeRig
from tests.simulation.disk import Crash, SimDisk

ROUNDS = 4
ROOT: dict[str, Any] = {
    "authorizer_class_name": AuthorizerClass.STANDARD,
    "super_users": Principals(frozenset({"User:ANONYMOUS"})),
}
Expected = dict[str, set[Any]]


def acl(number: int) -> AclCreation:
    return AclCreation(3, f"g{number}", "User:bob", "*", 3, 3)


def requests(number: int) -> list[Message]:
    """Make a user, a rule, a limit and a token, and delete those of the round before."""
    user, before = f"u{number}", f"u{number - 1}"
    limit = AlteringQuota((QuotaEntity("user", user),), (QuotaChange("join_rate", 1.0 + number),))
    made: list[Message] = [
        AlterUserScramCredentials((), (ScramUpsertion(user, 1, 4_096, b"salt", f"salted {number}".encode()),)),
        CreateAcls((acl(number),)),
        AlterClientQuotas((limit,)),
        CreateToken(f"t{number}", "operate", hash_of(f"token {number}"), 86_400_000),
    ]
    if number:
        gone = AlteringQuota((QuotaEntity("user", before),), (QuotaChange("join_rate", remove=True),))
        made += [
            AlterUserScramCredentials((ScramDeletion(before, 1),), ()),
            DeleteAcls((AclBindingFilter(3, f"g{number - 1}"),)),
            AlterClientQuotas((gone,)),
            DeleteToken(f"t{number - 1}"),
        ]
    return made


def state(rig: NodeRig) -> Expected:
    accounts = rig.node.core.accounts
    users = {
        (name, credentials[ScramMechanism.SCRAM_SHA_256].stored_key) for name, credentials in accounts.users.items()
    }
    rules = {one.name for one in accounts.authorizer.acls}
    limits = {(*entity[0], *values.items()) for entity, values in accounts.quotas.limits.items()}
    tokens = {(name, one.token_hash, one.role, one.expires_ms) for name, one in accounts.tokens.by_name.items()}
    return {"users": users, "rules": rules, "limits": limits, "tokens": tokens}


def administer(disk: SimDisk) -> tuple[list[Expected], int]:
    """Ask until the machine stops, or all is answered; the states after each answer, and the number of answers."""
    states: list[Expected] = [{"users": set(), "rules": set(), "limits": set(), "tokens": set()}]
    answered = 0
    with suppress(Crash):
        rig = NodeRig(disk, **ROOT)
        for message in chain.from_iterable(map(requests, range(ROUNDS))):
            rig.replied.clear()
            try:
                rig.ask_inside(message)
                rig.wait(200)
            finally:
                answered += 1 in rig.replied
            states.append(state(rig))
    return states, answered


@pytest.mark.parametrize("seed", range(3))
def test_what_was_answered_is_there_after_a_crash_at_any_operation_of_the_disk(seed: int) -> None:
    whole = SimDisk(seed)
    states, answered = administer(whole)
    assert answered == 4 + 8 * (ROUNDS - 1) and states[answered]["limits"]
    for place in range(1, whole.operations + 1):
        disk = SimDisk(seed)
        disk.crash_before = place
        _, answered = administer(disk)
        disk.crash()
        found = state(NodeRig(disk, **ROOT))
        # The request after the last answered one may have become durable, and be without an answer.
        assert found in states[answered : answered + 2], f"the crash before operation {place}"
