"""Pages of the node itself: the list of paths, and the probes."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from coordinator.http.overview import LIST_PARAMETERS
from coordinator.http.queries import Queries
from coordinator.http.routing import schemas
from coordinator.http.routing.openapi import HTML
from coordinator.http.routing.route import HttpRoute, Names
from coordinator.http.shapes import Json


class NodePages:
    """Each method is a page: (origin, names in the path, query)."""

    def __init__(self, queries: Queries, paths: Callable[[], Iterable[str]]) -> None:
        self._ask, self._paths = queries, paths

    async def index(self, origin: str, names: Names, query: Names) -> Json:
        return {"service": "musterd", "paths": sorted(self._paths())}

    async def healthz(self, origin: str, names: Names, query: Names) -> Json:
        """Answer that the process lives and its loop turns; the node is not asked."""
        return {"healthy": True}

    async def readyz(self, origin: str, names: Names, query: Names) -> tuple[int, Json]:
        """Answer 503 while the node cannot serve its groups, or joins nodes that wait for it."""
        node = await self._ask.node()
        # Groups are served while the cluster is unreachable, but only once its brokers have listeners here.
        is_led = node.gauges.get("upstream_brokers", 1) > 0
        to_read = node.gauges.get("shards_to_read", 0)
        ready = node.shards_loaded == node.shards_total and is_led and not to_read
        body: dict[str, Any] = {
            "ready": ready,
            "shards_loaded": node.shards_loaded,
            "shards_total": node.shards_total,
        }
        if to_read:  # a rolling restart waits until the node can inherit shards
            body["shards_to_read"] = to_read
        if node.gauges.get("disk_full"):  # reads are still served, so the node stays ready
            body["disk_full"] = True
        if node.log_problems:  # groups are served, though not safely
            body["log_problems"] = node.log_problems
        if node.failed_shards:
            body["failed_shards"] = node.failed_shards
        if node.loading is not None and node.loading.is_loading:
            body["loading"] = node.loading
        if "upstream_reachable" in node.gauges:
            reachable = bool(node.gauges["upstream_reachable"])
            body["upstream"] = {"reachable": reachable, "age_ms": node.gauges["upstream_age_ms"]}
            if node.upstream_problem:
                body["upstream"]["why"] = node.upstream_problem
        return (200 if ready else 503), body


INDEX: Final = HttpRoute(
    "/",
    NodePages.index,
    "All paths; for a browser, the console's list of groups, which alone has parameters.",
    schemas.INDEX,
    LIST_PARAMETERS,
    more_media=(HTML,),
)
NODE_ROUTES: Final = (
    HttpRoute("/healthz", NodePages.healthz, "Whether the process lives.", schemas.HEALTH, is_open=True),
    HttpRoute(
        "/readyz",
        NodePages.readyz,
        "Whether groups are served.",
        schemas.READINESS,
        also={503: schemas.READINESS},
        is_open=True,
    ),
)
