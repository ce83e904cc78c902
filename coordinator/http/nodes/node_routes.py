"""Routes for requests between nodes: each node answers for its own groups, and sends no request to other nodes."""

from collections.abc import Callable, Collection
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from coordinator import __version__
from coordinator.http.answers import answer_json
from coordinator.http.nodes.shares import SHARED_REQUESTS
from coordinator.http.queries import Ask, Problem, Queries
from coordinator.http.routing import schemas
from coordinator.http.routing.route import HttpRoute
from coordinator.http.watch import ProblemWatch
from diagnosis.facts import known_facts
from protocol.errors import ProtocolViolation
from protocol.messages.node import HelloReply
from protocol.native.session import NativeDialect

FRAME_MEDIA: Final = "application/octet-stream"
SERVED_SHARDS: Final = "Muster-Served-Shards"
"""Header with the shards that the node served while it answered."""
_LONGEST_REQUEST_BYTES: Final = 1 << 20
_BYTES: Final = {"type": "string", "format": "binary"}

ASK: Final = HttpRoute(
    "/v1/nodes/{node}/ask",
    object,
    "For other nodes: a request about this node's groups, as a frame of the native protocol.",
    _BYTES,
    (),
    (421,),
    _BYTES,
    "POST",
    media=FRAME_MEDIA,
    body_media=FRAME_MEDIA,
)
PROBLEMS: Final = HttpRoute(
    "/v1/nodes/{node}/problems", object, "Open problems of this node's groups alone.", schemas.PROBLEMS, (), (421,)
)


def node_routes(
    node_id: int, served: Callable[[], Collection[int]], own: Ask, watch: ProblemWatch
) -> list[tuple[HttpRoute, Handler]]:
    """Return the routes of a node with their handlers. `own` sends requests to this node, `served` returns its
    shards."""
    methods = tuple(message.__name__ for message in SHARED_REQUESTS)
    dialect = NativeDialect(_LONGEST_REQUEST_BYTES, HelloReply("musterd", __version__, node_id, methods, {}))
    queries = Queries(own)

    def check(request: web.Request) -> None:
        if request.match_info["node"] != str(node_id):
            raise Problem(
                421,
                f"this is node {node_id}, not {request.match_info['node'][:20]!r}: set each node's own address by "
                "--advertised http=HOST:PORT",
            )

    async def ask(request: web.Request) -> web.StreamResponse:
        check(request)
        before = served()
        session = dialect.open()
        try:
            session.receive_data(await request.read())
            wanted = session.next_request()
        except ProtocolViolation as violation:
            raise Problem(400, f"no request of the native protocol: {violation}") from None
        if wanted is None:  # the session has refused the request itself
            body = session.take_data()
        else:
            number, message = wanted
            body = session.encode_reply(number, await own(message))
        shards = ",".join(map(str, sorted(set(before).intersection(served()))))
        return web.Response(body=body, content_type=FRAME_MEDIA, headers={SERVED_SHARDS: shards})

    async def problems(request: web.Request) -> web.StreamResponse:
        check(request)
        found: Any = [known_facts(problem) for problem in await watch.shown_to(queries)]
        return answer_json({"problems": found})

    return [(ASK, ask), (PROBLEMS, problems)]


def parse_shards(text: str) -> frozenset[int]:
    """Return the shards in the header's value."""
    return frozenset(int(one) for one in text.split(",") if one.isdecimal())
