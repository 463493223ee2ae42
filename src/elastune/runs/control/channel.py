"""The control channel into the driver of a run: request files in the run's folder, and their answers.

The sender writes `control/ID.request.json` under another name and renames it, so the driver never reads half
of one. The driver looks a few times per second, takes a request by renaming it, applies it as an event whose
journal line has the id, and then writes `control/ID.answer.json`. If it dies in between, the next driver
finds the id in the journal and only answers: each request is applied at most once. A sender that gets no
answer withdraws its request, which is impossible once it is taken. Other files are left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from elastune.errors import ExecutionError
from elastune.journal.run_folders import RunFolder
from elastune.runs.control.requests import (
    RefusedRequestError,
    RunRequest,
    StopRun,
    SuspendRun,
    decode_request,
    encode_request,
)

_REQUEST = ".request.json"
_TAKEN = ".taken.json"
_ANSWER = ".answer.json"
_MOST_BYTES = 100_000
_LOOK_S = 0.05
WAIT_S = 30.0
"""How long a sender waits for a driver that lives. Drivers answer within a second; one that plans again may
take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAnswer:
    accepted: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """`request` is the error if the file holds none."""

    id: str
    request: RunRequest | RefusedRequestError


class ControlFolder:
    """Both ends of the channel."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / "control"

    # The sender.

    def send(self, request: RunRequest) -> str:
        """Returns the id of the request."""
        id_ = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        self._write(f"{id_}{_REQUEST}", encode_request(request))
        return id_

    def answer_to(
        self, id_: str, is_alive: Callable[[], bool], *, wait_s: float = WAIT_S, stays: bool = False
    ) -> RequestAnswer | None:
        """Wait for the answer; None: the driver is gone or silent, and the request is withdrawn. `stays`: a
        request that a silent driver has not seen yet is left for it."""
        until = time.monotonic() + wait_s
        while (answer := self._read_answer(id_)) is None:
            if not is_alive():
                answer = self._read_answer(id_)
                break
            if time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
        if answer is None and not stays:
            self._remove(f"{id_}{_REQUEST}")
        if answer is not None:
            self._remove(f"{id_}{_ANSWER}")
        return answer

    def _read_answer(self, id_: str) -> RequestAnswer | None:
        match _read(self._path / f"{id_}{_ANSWER}"):
            case {"accepted": bool(accepted), "text": str(text)}:
                return RequestAnswer(accepted=accepted, text=text)
            case _:
                return None

    # The driver.

    def take(self) -> Iterator[Received]:
        """The requests that wait, oldest first; each is then answered."""
        for name in self._names(_REQUEST):
            id_ = name.removesuffix(_REQUEST)
            try:
                (self._path / name).rename(self._path / f"{id_}{_TAKEN}")
            except OSError:  # withdrawn meanwhile
                continue
            yield self._received(id_)

    def take_left_over(self) -> Iterator[Received]:
        """Those that an earlier driver had taken and did not answer."""
        for name in self._names(_TAKEN):
            yield self._received(name.removesuffix(_TAKEN))

    def answer(self, id_: str, answer: RequestAnswer) -> None:
        with contextlib.suppress(ExecutionError):  # a full disk does not end a run
            self._write(f"{id_}{_ANSWER}", asdict(answer))
        self._remove(f"{id_}{_TAKEN}")

    def drop_stops(self) -> None:
        """Before a run goes on: requests to end or suspend it were meant for the driver before."""
        for received in (*self.take(), *self.take_left_over()):
            if isinstance(received.request, StopRun | SuspendRun):
                self.answer(received.id, RequestAnswer(accepted=False, text="the run was resumed meanwhile"))

    def _received(self, id_: str) -> Received:
        path = self._path / f"{id_}{_TAKEN}"
        is_plain = not path.is_symlink() and path.is_file() and path.stat().st_size <= _MOST_BYTES
        try:
            return Received(id=id_, request=decode_request(_read(path) if is_plain else None))
        except RefusedRequestError as error:
            return Received(id=id_, request=error)

    def _names(self, suffix: str) -> list[str]:
        try:
            with os.scandir(self._path) as entries:
                return sorted(entry.name for entry in entries if entry.name.endswith(suffix))
        except OSError:
            return []

    def _write(self, name: str, data: dict[str, object]) -> None:
        part = self._path / f".{name}.part"
        try:
            self._path.mkdir(exist_ok=True)
            part.write_text(json.dumps(data) + "\n", encoding="utf-8")
            part.replace(self._path / name)
        except OSError as error:
            raise ExecutionError(f"{self._path / name} cannot be written: {error.strerror}") from error

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._path / name).unlink(missing_ok=True)


def _read(path: Path) -> object:
    """None if the file is missing or not valid."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
