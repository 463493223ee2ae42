"""The routes of the dashboard: pages, data for them as JSON, streams, and requests to runs."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import shutil
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from elastune.dashboard import asking, pages, steering
from elastune.dashboard.downloads import packed_checkpoint
from elastune.dashboard.guard import HEADERS, Guard
from elastune.dashboard.run_data import RunData
from elastune.dashboard.site import Site, in_thread, unless_ending
from elastune.dashboard.streams import live_stream, log_stream
from elastune.errors import ElastuneError, JobError
from elastune.views.page.figures import Json, finite

STATIC = Path(__file__).parent / "static"
_MOST_BODY = 1_000_000
_BODY_S = 20.0
_MOST_COMPARED = 12
_COMPUTED = frozenset({"/api/quote", "/api/simulate"})


def make_app(site: Site) -> Starlette:
    def page(render: Callable[[Site, Request], str]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return HTMLResponse(await in_thread(render, site, request))

        return endpoint

    def data(read: Callable[[Site, Request], object]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return JSONResponse(await unless_ending(site, in_thread(read, site, request)))

        return endpoint

    def answer(reply: Callable[[Site, Request, Mapping[str, object]], object], path: str) -> Route:
        async def endpoint(request: Request) -> Response:
            body = await _body(request)
            if path not in _COMPUTED:
                return JSONResponse(finite(await unless_ending(site, in_thread(reply, site, request, body))))
            async with site.quoting:  # a request to stop a run does not wait for it
                if await request.is_disconnected():
                    return Response(status_code=499)
                return JSONResponse(finite(await unless_ending(site, in_thread(reply, site, request, body))))

        return Route(path, endpoint, methods=["POST"])

    run = "/api/runs/{run}"
    routes = [
        Route("/", page(lambda site, _: pages.runs_page(site.access))),
        Route("/ask", page(lambda site, _: pages.ask_page(site.access))),
        Route("/compare", page(lambda site, _: pages.compare_page(site.access))),
        Route("/runs/{run}", page(_run_page)),
        Route("/api/runs", data(_runs)),
        Route("/api/jobs", data(lambda site, _: asking.known_jobs(site.root))),
        Route("/api/compare", data(_compared)),
        Route(f"{run}/figures", data(lambda site, asked: _of(site, asked).figures())),
        Route(f"{run}/trials", data(lambda site, asked: _of(site, asked).table())),
        Route(f"{run}/importance", data(lambda site, asked: _of(site, asked).importance())),
        Route(f"{run}/facts", data(lambda site, asked: _of(site, asked).facts())),
        Route(f"{run}/trials.csv", partial(_csv, site)),
        Route(f"{run}/model.zip", partial(_model, site)),
        Route(f"{run}/live", partial(live_stream, site)),
        Route(f"{run}/log/{{trial}}", partial(log_stream, site)),
        answer(_quote, "/api/quote"),
        answer(_job_file, "/api/job"),
        answer(_simulated, "/api/simulate"),
        answer(_start_preview, "/api/start"),
        answer(_preview, f"{run}/preview"),
        answer(lambda site, _, body: {"text": site.tickets.redeem(body.get("ticket"))}, "/api/carry-out"),
        Route("/static/plotly.min.js", _plotly),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=site.access)],
        exception_handlers={ElastuneError: _explained, HTTPException: _explained, Exception: _unexpected},
    )


async def _body(request: Request) -> Mapping[str, object]:
    body = b""
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BODY:
                    raise HTTPException(413, "the request is too large")
    except TimeoutError:
        raise HTTPException(408, "the request did not arrive in time; send it again") from None
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is no JSON") from None
    if not isinstance(given, dict):
        raise HTTPException(400, "the request is no JSON object")
    return given


async def _explained(request: Request, error: Exception) -> Response:
    """Never a blank page: what is wrong, in words."""
    status = error.status_code if isinstance(error, HTTPException) else 400
    text = str(error.detail) if isinstance(error, HTTPException) else str(error)
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": text}, status)
    return HTMLResponse(pages.error_page(text), status)


async def _unexpected(request: Request, error: Exception) -> Response:
    text = f"a bug of Elastune: {type(error).__name__}: {error}; please report it with the journal"
    answer = await _explained(request, HTTPException(500, text))
    answer.headers.update(HEADERS)  # it does not pass the guard
    return answer


def _of(site: Site, request: Request) -> RunData:
    return site.data(request.path_params["run"])


def _runs(site: Site, request: Request) -> Json:
    return site.listing.answer(request.query_params.get("seen", ""))


def _run_page(site: Site, request: Request) -> str:
    found = site.find(request.path_params["run"])
    return pages.run_page(site.access, found)


def _compared(site: Site, request: Request) -> Json:
    wanted = [run for run in request.query_params.get("runs", "").split(",") if run][:_MOST_COMPARED]
    runs: list[Json] = []
    broken: list[Json] = []
    for run in wanted:
        try:
            data = site.data(run)
            figures, record = data.figures(math.inf), data.found.record
        except ElastuneError as error:
            broken.append({"run": run, "reason": str(error)})
            continue
        kept = ("metric", "rises", "best", "money", "nodes", "end_s", "is_free", "trials")
        about = {"run": record.run, "name": record.name, "policy": record.policy, "seed": record.seed}
        runs.append({**about, **{key: figures[key] for key in kept}})
    return {"runs": runs, "broken": broken}


async def _csv(site: Site, request: Request) -> Response:
    data = await in_thread(_of, site, request)
    text = await in_thread(data.csv)
    name = f"trials-{data.found.record.run}.csv"
    return PlainTextResponse(
        text, media_type="text/csv", headers={"content-disposition": f'attachment; filename="{name}"'}
    )


async def _model(site: Site, request: Request) -> Response:
    found = await in_thread(site.find, request.path_params["run"])
    path = await in_thread(packed_checkpoint, found)
    name = f"model-{found.record.run}.zip"
    gone = BackgroundTask(shutil.rmtree, path.parent, ignore_errors=True)
    return FileResponse(path, filename=name, media_type="application/zip", background=gone)


def _plotly(_request: Request) -> Response:
    spec = importlib.util.find_spec("plotly")  # only its file is needed
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    return FileResponse(path, headers={"cache-control": "max-age=86400"})


def _asked_job(site: Site, body: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    text, changes = body.get("text"), body.get("changes") or {}
    if not isinstance(text, str) or not isinstance(changes, dict):
        raise JobError("expected the text of a job, and changes")
    if site.access.read_only and all(text != job["text"] for job in asking.known_jobs(site.root)):
        raise JobError("this dashboard is read-only: it quotes the jobs of its runs, and no others")
    return text, changes


def _quote(site: Site, _request: Request, body: Mapping[str, object]) -> Json:
    text, changes = _asked_job(site, body)
    return asking.quote_json(text, changes, site.folder, whole=bool(body.get("whole")))


def _job_file(site: Site, _request: Request, body: Mapping[str, object]) -> Json:
    text, changes = _asked_job(site, body)
    return {"text": asking.job_text(text, changes, site.folder)}


def _simulated(site: Site, _request: Request, body: Mapping[str, object]) -> Json:
    text, changes = _asked_job(site, body)
    faults, seed = str(body.get("faults") or "none"), body.get("seed") or 0
    if not isinstance(seed, int):
        raise JobError(f"the seed is {seed!r}; expected a whole number")
    return asking.simulated_json(text, changes, site.folder, site.root, faults=faults, seed=seed)


def _preview(site: Site, request: Request, body: Mapping[str, object]) -> Json:
    found = site.find(request.path_params["run"])
    given = body.get("given") or {}
    if not isinstance(given, dict):
        raise JobError("expected the limits or the configuration as an object")
    data = site.runs.of(found)
    return steering.preview(site.tickets, found, str(body.get("action")), given, data.refusal)


def _start_preview(site: Site, _request: Request, body: Mapping[str, object]) -> Json:
    text, changes = _asked_job(site, body)
    return steering.preview_start(
        site.tickets, asking.job_text(text, changes, site.folder), folder=site.folder, root=site.root
    )
