"""Answers as JSON, and errors as problem+json (RFC 9457)."""

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any, Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.http.logins import challenge
from coordinator.http.queries import Problem
from coordinator.http.routing.openapi import PROBLEM_MEDIA

_RETRY: Final = frozenset({503})


def answer_json(body: Any, status: int = 200, media: str = "application/json") -> web.Response:
    """Make an answer of a JSON object."""
    return web.Response(body=msgspec.json.encode(body), status=status, content_type=media, charset="utf-8")


def problems_as_json(short: Collection[str], failed: Callable[[str, Exception], None]) -> Middleware:
    """Make a middleware that answers errors as problem+json; those of the paths `short` say `err` and `msg` too
    (docs/spec/client-balanced-groups.md#15.3). `failed` is called with the exception of a page."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Problem as problem:
            return _problem(request, problem, short)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            found = _problem(request, Problem(error.status, _sentence(request, error)), short)
            if "Allow" in error.headers:
                found.headers["Allow"] = error.headers["Allow"]
            return found
        except Exception as error:  # noqa: BLE001  (a page's fault is the answer of one request)
            failed(request.path, error)
            return _problem(request, Problem(500, "this page failed; the daemon's log has the reason"), short)

    return answer


def _problem(request: web.Request, problem: Problem, short: Collection[str]) -> web.Response:
    body = {
        "type": "about:blank",
        "title": _phrase(problem.status),
        "status": problem.status,
        "detail": problem.message,
        "error_code": problem.error_code,
        "message": problem.message,
    }
    resource = request.match_info.route.resource
    if resource is not None and resource.canonical in short:
        body |= {"err": problem.status, "msg": problem.message}
    answer = answer_json(body, problem.status, PROBLEM_MEDIA)
    if problem.status in _RETRY:
        answer.headers["Retry-After"] = "1"
    elif problem.status == 401:
        answer.headers["WWW-Authenticate"] = challenge(request)
        if "HX-Request" in request.headers:
            answer.headers["HX-Refresh"] = "true"  # makes htmx reload the page, which then is the login form
    return answer


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def _sentence(request: web.Request, error: web.HTTPException) -> str:
    if error.status == 404:
        return f"there is nothing at {request.path}; GET / lists the paths"
    if error.status == 405:
        return f"{request.method} is not allowed at {request.path}"
    return error.reason
