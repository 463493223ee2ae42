"""Real gangs: processes that are forked, warm, from one that called `warm_up`, as on a node."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from elastune.training.groups import Group, Solo, open_rendezvous
from elastune.training.running import join
from tests.waiting import PATIENCE_S

Task = Callable[..., Any]

# The server is a fresh process: this one may have trained already, and then forking is not allowed.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["__main__", "tests.training.warm"])


class Crew:
    """Processes that form one gang after the other. After a failure the next gang has new ones."""

    def __init__(self) -> None:
        self.processes: list[BaseProcess] = []
        self.pipes: list[Connection] = []

    def run(self, size: int, task: Task, *arguments: Any) -> list[Any]:
        """What `task(group, *arguments)` returned on each rank of a new gang."""
        while len(self.pipes) < size:
            self._hire()
        try:
            for pipe in self.pipes[:size]:
                pipe.send((size, task, arguments))
            port = _receive(self.pipes[0])
            for pipe in self.pipes[1:size]:
                pipe.send(port)
            return [_receive(pipe) for pipe in self.pipes[:size]]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for process, pipe in zip(self.processes, self.pipes, strict=True):
            process.kill()
            process.join()
            process.close()
            pipe.close()
        self.processes, self.pipes = [], []

    def _hire(self) -> None:
        ours, theirs = _CONTEXT.Pipe()
        # Not a daemon: a DataLoader starts processes of its own.
        process = _CONTEXT.Process(target=_serve, args=(len(self.pipes), theirs))
        process.start()
        theirs.close()
        self.processes.append(process)
        self.pipes.append(ours)


def _receive(pipe: Connection) -> Any:
    assert pipe.poll(2 * PATIENCE_S), "a worker does not answer"
    kind, value = pipe.recv()
    assert kind == "fine", value
    return value


def _serve(rank: int, pipe: Connection) -> None:
    while True:
        try:
            size, task, arguments = pipe.recv()
            group = _join(rank, size, pipe)
            result = task(group, *arguments)
            group.close()
        except EOFError:
            return
        except BaseException:
            pipe.send(("failed", f"rank {rank}:\n{traceback.format_exc()}"))
            raise
        pipe.send(("fine", result))


def _join(rank: int, size: int, pipe: Connection) -> Group:
    if rank:
        return join("127.0.0.1", pipe.recv(), rank=rank, size=size, timeout_s=PATIENCE_S)
    if size == 1:
        pipe.send(("fine", None))
        return Solo()
    meeting = open_rendezvous("127.0.0.1")
    pipe.send(("fine", meeting.port))
    return join(meeting.host, meeting.port, rank=0, size=size, timeout_s=PATIENCE_S, rendezvous=meeting)
