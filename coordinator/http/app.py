"""EDGE: HTTP paths -> messages; replies -> JSON. The application is given `ask` and nothing else: its pages show only
what any client can request, and their requests pass the same admission."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from coordinator import __version__
from coordinator.config.webhooks import WebhookConfig
from coordinator.http.answers import answer_json, problems_as_json
from coordinator.http.client_balanced import BALANCED_ROUTES, ORDERS, BalancedPages
from coordinator.http.connections import Count, HttpConnections, HttpLimits
from coordinator.http.console.pages import ConsolePages
from coordinator.http.console.site import ConsoleSite
from coordinator.http.guard import DEFAULT_HEADERS, HEADERS, Guard
from coordinator.http.lag.end_history import EndHistory
from coordinator.http.lag.timed import TimedLags
from coordinator.http.live.event_pages import EVENTS, EventPages
from coordinator.http.live.feed import LOOK_EVERY_S, Feed
from coordinator.http.live.webhooks import Webhooks
from coordinator.http.logins import METRICS, Authenticator, HttpAuthenticator, logged_in, naming_certificates
from coordinator.http.metrics import exposition
from coordinator.http.node_pages import INDEX, NODE_ROUTES, NodePages
from coordinator.http.nodes.all_nodes import ALONE, ANSWER_WITHIN_S, AllNodes, ClusterProblems, NodesPlan
from coordinator.http.nodes.client import NodeClient
from coordinator.http.nodes.node_routes import node_routes
from coordinator.http.nodes.unavailable import noting_unavailable
from coordinator.http.overview import OVERVIEW_ROUTES, OverviewPages
from coordinator.http.pages import ROUTES, Pages
from coordinator.http.problems import PROBLEM_ROUTES, ProblemPages
from coordinator.http.queries import Ask, Problem, Queries
from coordinator.http.routing.openapi import document
from coordinator.http.routing.route import HttpRoute, check_query
from coordinator.http.scrape import measure
from coordinator.http.shapes import Json
from coordinator.http.surgery import SURGERY_ROUTES, SurgeryPages
from coordinator.http.topics import TOPIC_ROUTES, TopicPages
from coordinator.http.watch import OpenProblems, ProblemWatch
from coordinator.http.what_if import WhatIf
from coordinator.io.keepalive import keep_alive
from coordinator.io.rate_limited_log import RateLimitedLog
from coordinator.io.tls.listening import HANDSHAKE_S, ListeningTls
from diagnosis.problem import GroupProblem
from protocol.messages import Message

ASK_TIMEOUT_S = 10.0
MOST_SERIES = 10_000
SHUTDOWN_S = 5.0
WATCH_EVERY_S = 10.0
"""Interval of checks for problems without a request."""
_LIMITS = HttpLimits()

OPENAPI: Final = HttpRoute("/openapi.json", object, "This document.", {"type": "object"})
DOCUMENT: Final[web.AppKey[Callable[[], Json]]] = web.AppKey("DOCUMENT")
"""Makes the OpenAPI document at the first call, and returns the same one later, since making it takes longer than the
rest of the application."""
_METRICS_ROUTE: Final = HttpRoute("/metrics", object, "Metrics for Prometheus.", {"type": "string"}, media="text/plain")
_SHORT = frozenset(route.path for route in (*BALANCED_ROUTES, *ORDERS))
"""Pages whose refusals say `err` and `msg` as well (docs/spec/client-balanced-groups.md#15.3)."""

log = structlog.get_logger()


class _OnlyOurFaults(logging.Handler):
    """Forwards aiohttp's log, except its tracebacks for bytes that are not HTTP, which anyone can send."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            log.error("a page failed", message=record.getMessage(), exc_info=error)


def _log_failure(path: str, error: Exception) -> None:
    log.error("a page failed", path=path, exc_info=error)


def _aiohttp_log() -> logging.Logger:
    logger = logging.getLogger("coordinator.http.app")
    logger.handlers = [_OnlyOurFaults()]
    logger.propagate = False
    return logger


def make_app(
    ask: Ask,
    *,
    ask_timeout_s: float = ASK_TIMEOUT_S,
    most_series: int = MOST_SERIES,
    hosts: Iterable[str] = (),
    authenticator: Authenticator | None = None,
    has_open_metrics: bool = False,
    ask_itself: Ask | None = None,
    look_every_s: float = LOOK_EVERY_S,
    webhooks: WebhookConfig | None = None,
    count: Count = lambda name: None,
    nodes: NodesPlan = ALONE,
    nodes_answer_within_s: float = ANSWER_WITHIN_S,
) -> web.Application:
    """Make the application. A request unanswered after `ask_timeout_s` becomes a 504; `/metrics` shows at most
    `most_series` partitions of groups, and as many of topics. `hosts`: names that clients may use besides addresses.
    With `authenticator` requests need a login, unless `has_open_metrics` those of `/metrics` too. With `ask_itself`,
    which may see everything, groups are checked for problems without a request, and every `look_every_s` new events go
    to followers and to receivers of `webhooks`, whose posts `count` counts. Pages about groups have those of all
    `nodes`; metrics, events and webhooks have this node's. A list waits `nodes_answer_within_s` for the other nodes."""
    ask_own = _with_timeout(ask, ask_timeout_s)
    own_queries, watching_queries = Queries(ask_own), Queries(_with_timeout(ask_itself or ask, ask_timeout_s))
    limited_log = RateLimitedLog()
    watch = ProblemWatch(
        watching_queries, yield_to_loop, asyncio.Lock(), lambda *told: _publish_problem(limited_log, feed, *told)
    )
    feed = Feed(watching_queries, watch, time.time_ns() // 1_000_000, look_every_s)
    client = NodeClient(nodes.tls)
    all_nodes = AllNodes(nodes, ask_own, client, ask_timeout_s, min(nodes_answer_within_s, ask_timeout_s))
    queries, problems = Queries(all_nodes.ask), ClusterProblems(watch, own_queries, all_nodes)
    authentication = (
        None
        if authenticator is None
        else HttpAuthenticator(authenticator, partial(_in_time, "the login", ask_timeout_s))
    )
    surgery, what_if = SurgeryPages(queries), WhatIf(queries, asyncio.to_thread)
    history = EndHistory()
    lags = TimedLags(queries, history, yield_to_loop)
    console = ConsoleSite(ConsolePages(queries, problems, surgery, what_if, lags, yield_to_loop), authentication)
    middlewares = [problems_as_json(_SHORT, _log_failure), _guarded(Guard(hosts))]
    middlewares.append(
        naming_certificates
        if authentication is None
        else logged_in(authentication, console.show_form, METRICS if has_open_metrics else frozenset())
    )
    app = web.Application(middlewares=middlewares)
    app.on_response_prepare.append(_for_no_other_page)
    rows = _rows(queries, problems, surgery, what_if, lags, console)
    rows.append((_METRICS_ROUTE, _metrics(own_queries, most_series, watch, history)))
    rows += node_routes(nodes.placement.node_id, nodes.served, ask_own, watch)
    app.cleanup_ctx.append(_compiling(console))
    app.cleanup_ctx.append(client.running)
    events = EventPages(own_queries, feed, is_still_in=None if authentication is None else authentication.is_still_in)
    routes = [*(route for route, _handler in rows), OPENAPI, EVENTS]
    described: Callable[[], Json] = cache(
        partial(document, routes, __version__, wants_logins=authentication is not None)
    )
    app[DOCUMENT] = described
    app.router.add_route("GET", EVENTS.path, _checked(EVENTS, events.stream))
    for route, handler in (*rows, (OPENAPI, _openapi(described))):
        app.router.add_route(route.method, route.pattern, _checked(route, handler))
        if route.method == "GET":
            app.router.add_route("HEAD", route.pattern, _checked(route, handler))
    if ask_itself is not None:
        app.cleanup_ctx.append(_watching(watch))
    app.cleanup_ctx.append(feed.running)
    if webhooks is not None and webhooks.webhook_urls.all:
        app.cleanup_ctx.append(Webhooks(webhooks, feed, count).running)
    app.on_cleanup.append(_closed(limited_log))
    app.on_shutdown.append(feed.close)
    return app


def _rows(
    queries: Queries,
    problems: OpenProblems,
    surgery: SurgeryPages,
    what_if: WhatIf,
    lags: TimedLags,
    console: ConsoleSite,
) -> list[tuple[HttpRoute, Handler]]:
    """Return each route about groups, topics and the node with its handler."""
    node = NodePages(queries, lambda: {route.path for route, _handler in rows} | {OPENAPI.path, EVENTS.path})
    pages: tuple[tuple[object, tuple[HttpRoute, ...]], ...] = (
        (node, NODE_ROUTES),
        (OverviewPages(queries, problems, yield_to_loop), OVERVIEW_ROUTES),
        (Pages(queries, what_if, lags), ROUTES),
        (TopicPages(queries), TOPIC_ROUTES),
        (ProblemPages(queries, yield_to_loop, problems), PROBLEM_ROUTES),
        (BalancedPages(queries, lags), (*BALANCED_ROUTES, *ORDERS)),
    )
    rows = [(route, _page(of, route)) for of, routes in pages for route in routes]
    rows.append((INDEX, console.index(_page(node, INDEX))))
    rows += console.routes()
    rows += [(route, _posted(surgery, route)) for route in SURGERY_ROUTES]
    return rows


def _compiling(console: ConsoleSite) -> Callable[[web.Application], AsyncIterator[None]]:
    async def compiling(_app: web.Application) -> AsyncIterator[None]:
        compiled = asyncio.create_task(asyncio.to_thread(console.compile_templates))
        yield
        await compiled

    return compiling


def _publish_problem(limited_log: RateLimitedLog, feed: Feed, problem: GroupProblem, is_open: bool) -> None:
    log_problem(limited_log, problem, is_open)
    feed.add_problem(problem, is_open)


def log_problem(limited_log: RateLimitedLog, problem: GroupProblem, is_open: bool) -> None:
    """Log a problem that opened or closed, at most one line a second for each kind."""
    told: dict[str, Any] = {"group": problem.group_id, "client": problem.client_id, "host": problem.client_host}
    if is_open:
        kind = problem.kind.value
        limited_log.write("problem opened", kind, level="warning", **told, sentence=problem.sentence)
    else:
        limited_log.write("problem closed", problem.kind.value, **told)


def _closed(limited_log: RateLimitedLog) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_app: web.Application) -> None:
        limited_log.close()

    return close


def _watching(watch: ProblemWatch) -> Callable[[web.Application], AsyncIterator[None]]:
    async def watching(_app: web.Application) -> AsyncIterator[None]:
        task = asyncio.create_task(_look_always(watch))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    return watching


async def _look_always(watch: ProblemWatch) -> None:
    while True:
        try:
            await watch.look()
        except Problem:
            log.debug("groups cannot be looked at yet")  # while they load, for instance
        except Exception:
            log.exception("groups could not be looked at for problems")
        await asyncio.sleep(WATCH_EVERY_S)


async def serve(
    app: web.Application,
    host: str,
    port: int,
    tls: ListeningTls | None = None,
    limits: HttpLimits = _LIMITS,
    gauges: dict[str, int] | None = None,
    count: Count = lambda name: None,
) -> tuple[tuple[str, int], Callable[[], Awaitable[None]]]:
    """Serve until the returned closer is awaited. Return the bound address and the closer. Raises OSError.

    There is no access log; `/metrics` shows the connections, by `gauges` and `count`.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_aiohttp_log(),
        handle_signals=False,
        shutdown_timeout=SHUTDOWN_S,
        keepalive_timeout=limits.keepalive_s,
    )
    await runner.setup()
    assert runner.server is not None
    secured: dict[str, Any] = {} if tls is None else {"ssl": tls.context, "ssl_handshake_timeout": HANDSHAKE_S}
    connections = HttpConnections(runner.server, limits, {} if gauges is None else gauges, count)
    try:
        listening = await asyncio.get_running_loop().create_server(connections, host, port, backlog=128, **secured)
    except OSError:
        connections.stop()
        await runner.cleanup()
        raise
    keep_alive(listening)
    bound = listening.sockets[0].getsockname()

    async def stop() -> None:
        listening.close()
        await runner.cleanup()
        connections.stop()

    return (bound[0], bound[1]), stop


def _with_timeout(ask: Ask, timeout_s: float) -> Ask:
    async def ask_in_time(message: Message) -> Message:
        reply = await _in_time(type(message).__name__, timeout_s, ask(message))
        await yield_to_loop()
        return reply

    return ask_in_time


async def _in_time(what: str, timeout_s: float, answer: Awaitable[Message]) -> Message:
    try:
        async with asyncio.timeout(timeout_s):
            return await answer
    except TimeoutError:
        raise Problem(504, f"{what} was not answered within {timeout_s:g} seconds") from None


def _guarded(guard: Guard) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        guard.check(request.method, request.path, request.headers.getall("Host", []), request.headers)
        return await handler(request)

    return check


async def _for_no_other_page(request: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(HEADERS)
    for name, value in DEFAULT_HEADERS.items():
        answer.headers.setdefault(name, value)


def _checked(route: HttpRoute, handler: Handler) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        check_query(route, request.query.items())
        return await handler(request)

    return handle


def _page(pages: object, route: HttpRoute) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        # Not request.url, which raises for an invalid Host header.
        origin = f"{request.scheme}://{request.host}"
        with noting_unavailable() as unavailable:
            found = await route.page(pages, origin, request.match_info, request.query)
        status, body = found if isinstance(found, tuple) else (route.status, found)
        if unavailable:
            body = {**body, "unavailable": unavailable.shown()}
        return answer_json(body, status)

    return handle


def _posted(pages: SurgeryPages, route: HttpRoute) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return answer_json(
            await route.page(pages, request.match_info, await request.read(), request.remote or "unknown")
        )

    return handle


def _openapi(described: Callable[[], Json]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return answer_json(described())

    return handle


async def yield_to_loop() -> None:
    """Let the loop serve other requests: a page may make many requests to the node, each answered without a wait.

    It takes two turns of uvloop: sockets are read at the end of a turn and served in the next, and their answers are
    written once all that was due in it has run. With one turn a heartbeat would wait for two pieces of a page."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


def _metrics(queries: Queries, most_series: int, watch: ProblemWatch, history: EndHistory) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        measured = await measure(queries, most_series, watch, yield_to_loop, history)
        # Writing a large page takes longer than a heartbeat should wait.
        accept = request.headers.get("Accept", "")
        body, content_type = await asyncio.to_thread(exposition, measured, accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handle
