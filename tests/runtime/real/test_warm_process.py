"""One process of a machine imports for all of its nodes; each node can do without it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elastune.runtime.ray.messages import GangBegan, SlotReady, Trained, WarmAddress
from elastune.runtime.ray.warm_process import WarmProcess
from tests.runtime.real.slot_processes import PATHS, crew_of, form
from tests.runtime.real.test_slot_processes import is_alive
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its socket has no file, as on Linux only")

SURROUNDED = """
import os

def surrounded(config, worker, state):
    print("of the training")
    while True:
        here = {"nice": os.nice(0), "same folder": os.getcwd() == config["folder"]}
        yield {"score": 1.0, "sign": float(os.environ["SIGN"]), "parent": os.getppid(), **here}, dict
"""


@contextmanager
def warm_process(*preload: str, paths: tuple[str, ...] = PATHS) -> Iterator[WarmProcess]:
    process = WarmProcess(paths, preload, threads=1)
    try:
        yield process
    finally:
        process.close()


def status_of(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


def parent_of(pid: int) -> int:
    return int(status_of(pid, "PPid"))


def test_the_fork_servers_of_all_nodes_are_forked_from_it(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(
        "import os, pathlib\npathlib.Path(__file__).with_name(f'imported-{os.getpid()}').touch()\n"
    )
    paths = (*PATHS, str(tmp_path))
    with (
        warm_process("counted", paths=paths) as warm,
        crew_of("count", tmp_path, slots=2, preload=("counted",), warm=warm.address) as one,
        crew_of("count", tmp_path, preload=("counted",), warm=warm.address) as other,
    ):
        servers = [each.processes.pids[0] for each in (one, other)]
        (importer,) = {parent_of(pid) for pid in servers}
        assert [path.name for path in tmp_path.glob("imported-*")] == [f"imported-{importer}"]
        one.processes.order(0, form(trial=0, until=2))
        other.processes.order(0, form(trial=1, until=2))
        for node in (one, other):
            node.wait_for(Trained, lambda news: news.reason == "reached")
    wait_until(lambda: not any(map(is_alive, [*servers, importer])), "they outlive node and run")


def test_slots_have_the_surroundings_of_their_node_not_those_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "code.py").write_text(SURROUNDED)
    with warm_process() as warm:
        monkeypatch.setenv("SIGN", "17")
        monkeypatch.chdir(tmp_path)
        with crew_of("surrounded", tmp_path, home=tmp_path / "code.py", warm=warm.address) as node:
            node.processes.order(0, form(until=1, folder=str(tmp_path)))
            news = node.wait_for(Trained, lambda news: bool(news.rows))
            server = node.processes.pids[0]
    ((_, _, row),) = news.rows
    assert row["sign"] == 17.0
    assert row["same folder"] == 1.0
    assert row["nice"] == os.nice(0)
    assert row["parent"] == server
    assert "of the training" in capfd.readouterr().out


def test_imports_see_how_their_commands_ended_and_what_they_set_stays(tmp_path: Path) -> None:
    """Scikit-learn, for example, sets what OpenMP reads when it is first used."""
    (tmp_path / "setting.py").write_text(
        "import os, subprocess\nos.environ['SIGN'] = str(subprocess.run(['false']).returncode)\n"
    )
    (tmp_path / "code.py").write_text(
        "import os\n\n"
        "def set_before(config, worker, state):\n"
        "    while True:\n"
        "        yield {'score': 1.0, 'sign': float(os.environ['SIGN'])}, dict\n"
    )
    paths = (*PATHS, str(tmp_path))
    with (
        warm_process("setting", paths=paths) as warm,
        crew_of("set_before", tmp_path, home=tmp_path / "code.py", warm=warm.address) as node,
    ):
        node.processes.order(0, form(until=1))
        news = node.wait_for(Trained, lambda news: bool(news.rows))
    ((_, _, row),) = news.rows
    assert row["sign"] == 1.0


def test_the_kernel_ends_slots_as_early_as_those_that_a_node_starts_itself(tmp_path: Path) -> None:
    """Where memory is short: Ray makes its workers likelier victims than the driver."""

    def score(pid: int) -> int:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())

    with warm_process() as warm:
        own = score(os.getpid())
        Path("/proc/self/oom_score_adj").write_text("321")
        try:
            with crew_of("count", tmp_path, warm=warm.address) as node:
                scores = {score(pid) for pid in node.processes.pids}
        finally:
            Path("/proc/self/oom_score_adj").write_text(str(own))
    assert scores == {321}


def test_a_node_whose_warm_process_is_gone_imports_by_itself(tmp_path: Path) -> None:
    with warm_process() as warm:
        pass
    with crew_of("count", tmp_path, warm=warm.address) as node:
        assert parent_of(node.processes.pids[0]) == os.getpid()


def test_a_node_whose_warm_process_dies_of_an_import_imports_by_itself(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(
        "import os, pathlib\nmarker = pathlib.Path(__file__).with_name('died')\n"
        "if not marker.exists():\n    marker.touch()\n    os._exit(1)\n"
    )
    paths = (*PATHS, str(tmp_path))
    with (
        warm_process("deadly", paths=paths) as warm,
        crew_of("count", tmp_path, preload=("deadly",), warm=warm.address) as node,
    ):
        assert (tmp_path / "died").exists()
        assert parent_of(node.processes.pids[0]) == os.getpid()


def test_a_node_with_another_interpreter_does_not_use_it(tmp_path: Path) -> None:
    with warm_process() as warm:
        other = WarmAddress(name=warm.address.name, interpreter="/usr/bin/another-python")
        with crew_of("count", tmp_path, warm=other) as node:
            assert parent_of(node.processes.pids[0]) == os.getpid()


def test_nodes_live_on_without_it(tmp_path: Path) -> None:
    """Also their slots are replaced: the fork server of a node needs it no more."""
    with warm_process() as warm, crew_of("count", tmp_path, warm=warm.address) as node:
        server, slot = node.processes.pids
        warm.close()
        os.kill(slot, signal.SIGKILL)
        node.wait_for(SlotReady)
        node.processes.order(0, form(until=1))
        node.wait_for(GangBegan)
        assert node.processes.pids[0] == server


def test_slots_end_with_the_fork_server_that_was_forked(tmp_path: Path) -> None:
    with warm_process() as warm, crew_of("count", tmp_path, warm=warm.address) as node:
        server, slot = node.processes.pids
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: not is_alive(slot), "the slot outlives its fork server")
