"""EDGE: HTTP paths -> messages; replies -> JSON. The application is given `ask` and nothing else: its pages show only
what any client can request, and their requests pass the same admission."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from coordinator.http.client_balanced import BALANCED_ROUTES, ORDERS, BalancedPages
from coordinator.http.connections import Count, HttpConnections, HttpLimits
from coordinator.http.guard import HEADERS, Guard
from coordinator.http.logins import CHALLENGE, METRICS, LogIn, logged_in
from coordinator.http.metrics import exposition
from coordinator.http.pages import ROUTES, Names, Pages
from coordinator.http.problems import PROBLEM_ROUTES, ProblemPages
from coordinator.http.queries import Ask, Problem, Queries
from coordinator.http.scrape import measure
from coordinator.http.shapes import Json
from coordinator.http.surgery import SURGERY_ROUTES, SurgeryPage, SurgeryPages
from coordinator.http.watch import ProblemWatch
from coordinator.io.keepalive import keep_alive
from coordinator.io.tls.listening import HANDSHAKE_S, ListeningTls
from diagnosis.problem import GroupProblem
from protocol.messages import Message

ASK_TIMEOUT_S = 10.0
MOST_SERIES = 10_000
SHUTDOWN_S = 5.0
LOOK_EVERY_S = 10.0
"""Interval of looks for problems."""
_LIMITS = HttpLimits()

P = TypeVar("P")
_SHORT = frozenset(path for path, _page in (*BALANCED_ROUTES, *ORDERS))
"""Pages whose refusals say `err` and `msg` as well (docs/spec/client-balanced-groups.md#15.3)."""

log = structlog.get_logger()


class _OnlyOurFaults(logging.Handler):
    """Forwards aiohttp's log, except its tracebacks for bytes that are no HTTP: anyone can send those."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            log.error("a page failed", message=record.getMessage(), exc_info=error)


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
    log_in: LogIn | None = None,
    has_open_metrics: bool = False,
    ask_itself: Ask | None = None,
) -> web.Application:
    """Make the application. A request unanswered after `ask_timeout_s` becomes a 504; `/metrics` shows at most
    `most_series` partitions of groups, and as many of topics. `hosts`: names that clients may use besides addresses.
    With `log_in` requests need a login, unless `has_open_metrics` those of `/metrics` too. With `ask_itself`, which may
    see everything, groups are looked at for problems though nobody asks."""
    queries = Queries(_with_timeout(ask, ask_timeout_s))
    own_queries = Queries(_with_timeout(ask_itself or ask, ask_timeout_s))
    watch = ProblemWatch(own_queries, _yield_to_loop, asyncio.Lock(), tell_problem)
    pages = Pages(queries)
    middlewares = [_problems_as_json, _guarded(Guard(hosts))]
    if log_in is not None:
        open_paths = METRICS if has_open_metrics else frozenset()
        middlewares.append(logged_in(_login_with_timeout(log_in, ask_timeout_s), open_paths))
    app = web.Application(middlewares=middlewares)
    app.on_response_prepare.append(_for_no_other_page)
    app.router.add_get("/", _index(app))
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/readyz", _readyz(queries))
    app.router.add_get("/metrics", _metrics(queries, most_series, watch))
    for path, page in ROUTES:
        app.router.add_get(path, _page(pages, page))
    problems = ProblemPages(queries, _yield_to_loop, watch)
    for path, found in PROBLEM_ROUTES:
        app.router.add_get(path, _page(problems, found))
    surgery = SurgeryPages(queries)
    for path, change in SURGERY_ROUTES:
        app.router.add_post(path, _posted(surgery, change))
    balanced = BalancedPages(queries)
    for path, shown in BALANCED_ROUTES:
        app.router.add_get(path, _page(balanced, shown))
    for path, order in ORDERS:
        app.router.add_post(path, _page(balanced, order, 202))
    if ask_itself is not None:
        app.cleanup_ctx.append(_watching(watch))
    return app


def tell_problem(problem: GroupProblem, is_open: bool) -> None:
    """Log a problem that opened or closed."""
    told = {"group": problem.group_id, "kind": problem.kind.value, "client": problem.client_id}
    if is_open:
        log.warning("problem opened", **told, host=problem.client_host, sentence=problem.sentence)
    else:
        log.info("problem closed", **told, host=problem.client_host)


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
            log.debug("groups cannot be looked at yet")  # they load, say
        except Exception:
            log.exception("groups could not be looked at for problems")
        await asyncio.sleep(LOOK_EVERY_S)


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
        reply = await _in_time(type(message).__name__, ask(message), timeout_s)
        await _yield_to_loop()
        return reply

    return ask_in_time


def _login_with_timeout(log_in: LogIn, timeout_s: float) -> LogIn:
    async def log_in_in_time(username: str, password: str, host: str) -> Message:
        return await _in_time("the login", log_in(username, password, host), timeout_s)

    return log_in_in_time


async def _in_time(what: str, answer: Awaitable[Message], timeout_s: float) -> Message:
    try:
        async with asyncio.timeout(timeout_s):
            return await answer
    except TimeoutError:
        raise Problem(504, f"{what} was not answered within {timeout_s:g} seconds") from None


@web.middleware
async def _problems_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Problem as problem:
        body = {"error_code": problem.error_code, "message": problem.message}
        resource = request.match_info.route.resource
        if resource is not None and resource.canonical in _SHORT:
            body |= {"err": problem.status, "msg": problem.message}
        answer = _json(body, problem.status)
        if problem.status == 503:
            answer.headers["Retry-After"] = "1"
        elif problem.status == 401:
            answer.headers["WWW-Authenticate"] = CHALLENGE
        return answer
    except web.HTTPException as error:
        if error.status < 400:
            raise
        answer = _json({"error_code": error.status, "message": _sentence(request, error)}, error.status)
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer


def _guarded(guard: Guard) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        guard.check(request.method, request.path, request.headers.getall("Host", []), request.headers)
        return await handler(request)

    return check


async def _for_no_other_page(request: web.Request, answer: web.StreamResponse) -> None:
    answer.headers.update(HEADERS)


def _sentence(request: web.Request, error: web.HTTPException) -> str:
    if error.status == 404:
        return f"there is nothing at {request.path}; GET / lists the paths"
    if error.status == 405:
        return f"{request.method} is not allowed at {request.path}"
    return error.reason


def _json(body: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json", charset="utf-8")


def _page(pages: P, page: Callable[[P, str, Names, Names], Awaitable[Json]], status: int = 200) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        # Not request.url: a Host header that is none would raise there.
        origin = f"{request.scheme}://{request.host}"
        return _json(await page(pages, origin, request.match_info, request.query), status)

    return handle


def _posted(pages: SurgeryPages, page: SurgeryPage) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return _json(await page(pages, request.match_info, await request.read(), request.remote or "unknown"))

    return handle


def _index(app: web.Application) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        paths = sorted({resource.canonical for resource in app.router.resources()})
        return _json({"service": "musterd", "paths": paths})

    return handle


async def _healthz(request: web.Request) -> web.StreamResponse:
    """Answer that the process lives and its loop turns; the node is not asked."""
    return _json({"healthy": True})


def _readyz(queries: Queries) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        node = await queries.node()
        # Groups are served while the cluster is unreachable, but not before its brokers have listeners here.
        is_led = node.gauges.get("upstream_brokers", 1) > 0
        ready = node.shards_loaded == node.shards_total and is_led
        body: dict[str, Any] = {
            "ready": ready,
            "shards_loaded": node.shards_loaded,
            "shards_total": node.shards_total,
        }
        if node.gauges.get("disk_full"):  # reads are still served: no reason to be taken out of service
            body["disk_full"] = True
        if node.failed_shards:
            body["failed_shards"] = node.failed_shards
        if node.loading is not None and node.loading.is_loading:
            body["loading"] = node.loading
        if "upstream_reachable" in node.gauges:
            reachable = bool(node.gauges["upstream_reachable"])
            body["upstream"] = {"reachable": reachable, "age_ms": node.gauges["upstream_age_ms"]}
            if node.upstream_problem:
                body["upstream"]["why"] = node.upstream_problem
        return _json(body, 200 if ready else 503)

    return handle


async def _yield_to_loop() -> None:
    """Let the loop serve others: requests to the node are answered without a wait, and a page may make many."""
    await asyncio.sleep(0)


def _metrics(queries: Queries, most_series: int, watch: ProblemWatch) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        measured = await measure(queries, most_series, watch, _yield_to_loop)
        # Writing a large page takes longer than a heartbeat should wait.
        accept = request.headers.get("Accept", "")
        body, content_type = await asyncio.to_thread(exposition, measured, accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    return handle
