"""A world with accounts on: all clients log in, by SCRAM, PLAIN and tokens, and some again before their login ends;
members have their ACLs, an administrator makes users, tokens and rules and deletes them, and others try what they may
not; while everything fails as in any world.

After each start, and from time to time: a credential, token or ACL that was acknowledged is there, none is there that
nobody asked for, and nothing that a user was refused has had an effect. Nobody is served after its login has ended.

python -m tests.simulation.accounts_world --seeds 1000 --first 0
"""

import sys
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import structs, to_builtins

from bench.scram import MECHANISM
from coordinator.accounts.acls import Acl
from coordinator.config.accounts import AuthorizerClass, Mechanisms, Principals
from coordinator.config.config import Config
from coordinator.config.keys import Secret
from coordinator.node.events import PasswordGiven
from protocol.messages.acls import AclOperation, AclResourceType, AlterUserScramCredentials, CreateAcls
from tests.simulation.accounts.administrator import Administrator
from tests.simulation.accounts.bearers import OAUTHBEARER, Robot, TokenHolder, provider_keys
from tests.simulation.accounts.bearers import SETTINGS as OAUTH_SETTINGS
from tests.simulation.accounts.known import Known, found_in, key_of
from tests.simulation.accounts.login import SimLogin
from tests.simulation.accounts.people import (
    ALLOW,
    FORBIDDEN,
    FORBIDDEN_OFFSET,
    GUESTS,
    LITERAL,
    Guest,
    Intruder,
    Person,
    Traveller,
    codes_of,
    credential,
)
from tests.simulation.accounts.people import creation as creation_of
from tests.simulation.errors import Broken
from tests.simulation.network import Link
from tests.simulation.plan import Plan
from tests.simulation.process import WALL_MS, Process
from tests.simulation.seeds import run_seeds, seeds_parser
from tests.simulation.strangers import Caller
from tests.simulation.world import World

_FIRST_USERS = tuple(credential(name) for name in ("admin", "member", "guest", "intruder"))
_MEMBER = credential("member")
_FIRST_RULES = (
    Acl(AclResourceType.GROUP, "*", LITERAL, "User:member", "*", AclOperation.ALL, ALLOW),
    Acl(AclResourceType.TOPIC, "*", LITERAL, "User:member", "*", AclOperation.ALL, ALLOW),
    Acl(AclResourceType.TOPIC, "alpha", LITERAL, "User:guest", "*", AclOperation.READ, ALLOW),
)
_LOOK_MS = 2_000
_AGAIN_MS = 3_000
_SETTINGS: dict[str, Any] = {
    "sasl_enabled_mechanisms": Mechanisms((MECHANISM, "PLAIN", OAUTHBEARER)),
    "authorizer_class_name": AuthorizerClass.STANDARD,
    "super_users": Principals(frozenset({"User:ANONYMOUS", "User:admin"})),
    **OAUTH_SETTINGS,
}


class AccountsWorld(World):
    """Users besides the members, and the answers that they get."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        super().__init__(seed, plan)
        self.known = Known()
        self.daemon.on_up = self._up
        self.after(_LOOK_MS, self._look)
        given = ("10.0.0.2", self, self)
        randoms = [Random(f"{seed} person {number}") for number in range(8)]
        self._guest = Guest(credential("guest"), *given, randoms[1])
        self._people: tuple[Person, ...] = (
            Administrator(credential("admin"), *given, randoms[0]),
            self._guest,
            Intruder(credential("intruder"), *given, randoms[2]),
            Traveller(credential("user-0"), *given, randoms[3], is_right=True),
            Traveller(credential("user-0"), "10.66.0.1", self, self, randoms[4], is_right=False),
            Robot(credential("robot"), *given, randoms[5], is_right=True),
            Robot(credential("robot"), "10.66.0.2", self, self, randoms[6], is_right=False),
            TokenHolder(credential("holder"), *given, randoms[7]),
        )

    def draw_config(self, random: Random) -> Config:
        reauth_ms = random.choice((0, 6_000, 20_000))
        return structs.replace(super().draw_config(random), connections_max_reauth_ms=reauth_ms, **_SETTINGS)

    @property
    def is_quiet(self) -> bool:
        return self._is_quiet

    @property
    def stalled_ms(self) -> int:
        return self.daemon.stalled_ms

    def members_of(self, random: Random) -> tuple[str, str]:
        running = [one for one in self.members.values() if one.running]
        if not running:
            return "orders", "nobody"
        one = random.choice(running)
        return one.settings.group_id, one.membership.member_id or "nobody"

    # --- logging in ---

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms + self.daemon.wall_offset_ms

    def show_token(self, text: str, host: str, heard: Callable[[Any], None]) -> None:
        node = self.daemon.node
        if node is not None and node.is_loaded:
            self.daemon.step(PasswordGiven(self._ledger.expect(heard), None, Secret(text), host))

    def host_of(self, who: Caller) -> str:
        return who.host if isinstance(who, Person) else super().host_of(who)

    def connect(
        self,
        daemon: Process,
        who: Caller,
        received: Callable[[bytes], None],
        lost: Callable[[], None],
        broker: int | None = None,
        *,
        is_calm: bool = False,
    ) -> Link | None:
        person = who if isinstance(who, Person) else None
        nonce = f"nonce{self._next_link}"

        def ended(is_in: bool) -> None:
            self.seen.add("clients logged in" if is_in else "clients refused")
            if person is not None:
                person.login_ended(is_in)

        exchange = _MEMBER.scram(nonce) if person is None else person.exchange(nonce)
        login = SimLogin(exchange, is_native=who.dialect.name == "native", received=received, ended=ended)
        link = super().connect(daemon, who, login.hear, lost, broker, is_calm=is_calm)
        if link is not None:
            if person is not None:
                person.login = login
            login.begin(link)
        return link

    # --- the first users ---

    def _up(self) -> None:
        node = self.daemon.node
        if node is not None:
            assert node.core.tokens is not None
            node.core.tokens.set_keys(provider_keys())
            self.seen.add("accounts compared after a start")
            self.known.recovered(found_in(node.core.accounts))
            self._make_first_users()

    def _make_first_users(self) -> None:
        """Create the missing users by requests from inside the daemon, again if the disk was full."""
        node = self.daemon.node
        if node is None:
            return
        found = found_in(node.core.accounts)
        users = [one for one in _FIRST_USERS if ("user", one.user) not in found]
        rules = [one for one in _FIRST_RULES if key_of(one) not in found]
        if not users and not rules:
            return
        self.after(_AGAIN_MS, self.daemon.in_this_life(self._make_first_users))
        values = {("user", one.user): one.stored_key for one in users} | {key_of(one): True for one in rules}
        for key, value in values.items():
            self.known.asked(key, value)

        def heard(keys: list[Any]) -> Callable[[Any], None]:
            def take(reply: Any) -> None:
                if not any(codes_of(to_builtins(reply))):
                    for key in keys:
                        self.known.answered(key, values[key])

            return take

        message = AlterUserScramCredentials((), tuple([one.upsertion for one in users]))
        self.daemon.step(self._ledger.call(message, heard([key for key in values if key[0] == "user"])))
        creations = tuple([creation_of(one) for one in rules])
        self.daemon.step(self._ledger.call(CreateAcls(creations), heard([key for key in values if key[0] == "acl"])))

    # --- what is watched ---

    def _look(self) -> None:
        self.after(_LOOK_MS, self._look)
        node = self.daemon.node
        if node is None or not node.is_loaded:
            return
        self.known.compare(found_in(node.core.accounts))
        core = node.core
        if core.topics.partition_count(FORBIDDEN) is not None:
            raise Broken("a user without an ACL has made a topic")
        guest = core.shard_of(GUESTS).offsets.get(GUESTS, "alpha", 0)
        if guest is not None and guest.offset in self._guest.refused:
            raise Broken(f"the commit of {guest.offset} was refused, and is there")
        for group_id in (*self.plan.pace.groups, FORBIDDEN):
            kept = core.shard_of(group_id).offsets.get(group_id, "alpha", 0)
            if kept is not None and kept.offset == FORBIDDEN_OFFSET:
                raise Broken(f"{group_id}: a user without an ACL has committed")

    def _stop_the_people(self) -> None:
        self._look()
        for person in self._people:
            person.hang_up()
        super()._stop_the_people()


def _tried(seed: int) -> str:
    """Run a seed, and return the failure; empty if there is none."""
    try:
        AccountsWorld(seed).run()
    except (Broken, AssertionError) as error:
        return f"BROKEN {seed} {error}"
    return ""


def main() -> int:
    given = seeds_parser("Worlds with logins, users and access rules.").parse_args()
    return run_seeds(given, "worlds with accounts", _tried)


if __name__ == "__main__":
    sys.exit(main())
