"""Ray nodes on this machine: they come and go exactly as asked, and none outlives its driver.

Most tests share one fleet. Those that end a fleet, in one way or another, have one of their own.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import elastune
from elastune.core.events import NodeLost
from elastune.errors import ExecutionError, InvariantError, JobError
from elastune.model.cluster import ClusterTerms
from elastune.model.ids import NodeId
from elastune.providers.local.link import WORKER_NICENESS
from elastune.providers.local.processes import NODE, sweep, tagged
from elastune.providers.local.provider import LocalProvider
from elastune.providers.local.roster import Roster
from elastune.providers.protocol import Provider, ProviderSetting, Survey
from elastune.providers.registry import known_providers, load_provider
from elastune.providers.watcher import Watcher
from tests.providers.contract import ProviderContract, nodes
from tests.waiting import PATIENCE_S, wait_until

ray = pytest.importorskip("ray")
HANGING_BOOTS = importlib.import_module("elastune.providers.local.supervisor").HANGING_BOOTS
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray's sockets
]

SLOW = pytest.mark.slow


def setting(
    *, max_nodes: int = 4, slots_per_node: int = 2, expires_s: float | None = None
) -> ProviderSetting:
    terms = ClusterTerms(slots_per_node=slots_per_node, max_nodes=max_nodes, price_per_hour=36.0)
    return ProviderSetting(run="r", terms=terms, clock=time.monotonic, expires_s=expires_s)


def settle(provider: Provider) -> Survey:
    """Wait until all is answered and up."""

    def settled() -> bool:
        survey = provider.survey()
        held = provider._roster.held  # type: ignore[attr-defined]
        return held == len(survey.machines) and all(
            machine.ready_s is not None for machine in survey.machines
        )

    wait_until(settled)
    return provider.survey()


def alive(pids: tuple[int, ...]) -> list[str]:
    """Processes that are not gone; a zombie is."""
    found = []
    for pid in pids:
        try:
            words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if words[0] not in "ZX":
            found.append(f"{pid} {Path(f'/proc/{pid}/cmdline').read_text(encoding='utf-8')[:80]}")
    return found


def folder_of(provider: LocalProvider) -> Path:
    assert provider._folder is not None
    return provider._folder.path


def raylet_of(node: NodeId) -> int:
    """The first process of the node: the others are its children."""
    return min(tagged(NODE, node))


def on_node(provider: LocalProvider, node: NodeId, work: Callable[[], Any]) -> Any:
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        provider.ray_node(node), soft=False
    )
    task = ray.remote(num_cpus=1)(work)
    return ray.get(task.options(scheduling_strategy=strategy).remote(), timeout=PATIENCE_S)


def where_am_i(provider: LocalProvider, node: NodeId) -> str:
    return str(on_node(provider, node, lambda: os.environ["ELASTUNE_NODE"]))


@pytest.fixture(scope="module")
def fleet() -> Iterator[LocalProvider]:
    with LocalProvider(setting()) as provider:
        yield provider


@pytest.fixture
def provider(fleet: LocalProvider) -> LocalProvider:
    return renewed(fleet)


def renewed(fleet: LocalProvider, *, room: int = 4) -> LocalProvider:
    """As if it was just opened: nothing held, nothing asked for."""
    fleet.release(nodes(settle(fleet)))
    fleet._roster = Roster()
    fleet._setting = setting(max_nodes=room)
    return fleet


class LocalStage:
    def __init__(self, fleet: LocalProvider) -> None:
        self._fleet = fleet

    def provider(self, *, room: int = 4) -> Provider:
        return renewed(self._fleet, room=room)

    def reopen(self, provider: Provider) -> Provider:
        return self.provider()

    def settle(self, provider: Provider) -> Survey:
        return settle(provider)


class TestContract(ProviderContract):
    @pytest.fixture
    def stage(self, fleet: LocalProvider) -> LocalStage:
        return LocalStage(fleet)

    def test_a_new_driver_finds_what_the_old_one_left(self, stage: Any) -> None:
        """Which is nothing: the fleet died with it. It is lost, and never comes back by that name."""
        provider, watcher = stage.provider(), Watcher()
        token = watcher.expect(1)
        provider.request(token, 2)
        left = stage.settle(provider)
        watcher.observe(left)
        reopened = stage.reopen(provider)
        events = watcher.observe(reopened.survey())
        assert [event.node for event in events if isinstance(event, NodeLost)] == nodes(left)
        reopened.request(token, 2)
        assert not set(nodes(stage.settle(reopened))) & set(nodes(left))

    def test_runs_do_not_see_each_other(self, stage: Any) -> None:
        """A process drives one fleet; others have a token of their own, see below."""


def test_the_fleet_grows_and_shrinks_exactly(provider: LocalProvider) -> None:
    provider.request("a", 2)
    first, second = nodes(settle(provider))
    provider.request("b", 1)
    assert len(nodes(settle(provider))) == 3
    provider.release([first])
    left = nodes(settle(provider))
    assert first not in left
    assert second in left
    in_ray = {str(provider.ray_node(node)) for node in left}
    wait_until(lambda: {each["NodeID"] for each in ray.nodes() if each["Alive"]} >= in_ray)
    wait_until(lambda: sum(each["Alive"] for each in ray.nodes()) == 3)  # the head and two of ours
    wait_until(lambda: tagged(NODE, first) == ())


def test_work_runs_on_the_node_it_is_meant_for_and_behind_the_driver(provider: LocalProvider) -> None:
    provider.request("a", 2)
    for node in nodes(settle(provider)):
        assert where_am_i(provider, node) == node
        assert on_node(provider, node, lambda: os.nice(0)) == min(os.nice(0) + WORKER_NICENESS, 19)


def test_a_node_offers_its_slots_whatever_the_machine_has(provider: LocalProvider) -> None:
    provider.request("a", 1)
    (node,) = nodes(settle(provider))
    (found,) = [each for each in ray.nodes() if each["NodeID"] == provider.ray_node(node)]
    assert found["Resources"]["CPU"] == 2.0
    assert "GPU" not in found["Resources"]


def test_only_gpus_have_to_be_taken_of_nodes_that_are_ours_alone() -> None:
    assert LocalProvider(setting(slots_per_node=4), slot_gpus=1, slot_cpus=2).resources() == (0.0, 4.0)


def test_a_node_that_is_killed_is_gone_and_the_others_stay(provider: LocalProvider) -> None:
    provider.request("a", 2)
    first, second = nodes(settle(provider))
    where_am_i(provider, first)  # so that a worker is left behind
    os.kill(raylet_of(first), signal.SIGKILL)
    wait_until(lambda: nodes(provider.survey()) == [second])
    wait_until(lambda: tagged(NODE, first) == ())
    assert provider.ray_node(first) is None
    assert where_am_i(provider, second) == second


def test_a_node_that_is_gone_makes_room(provider: LocalProvider) -> None:
    provider.request("a", 4)
    victim = nodes(settle(provider))[0]
    os.kill(raylet_of(victim), signal.SIGKILL)
    wait_until(lambda: len(provider.survey().machines) == 3)
    provider.request("b", 1)
    assert len(nodes(settle(provider))) == 4


def test_nothing_listens_where_the_network_could_reach(provider: LocalProvider) -> None:
    provider.request("a", 1)
    (node,) = nodes(settle(provider))
    where_am_i(provider, node)
    sockets = {
        found[1]
        for pid in provider.pids
        for file in Path(f"/proc/{pid}/fd").glob("*")
        if (found := re.fullmatch(r"socket:\[(\d+)\]", _target(file)))
    }
    listening = [
        (name, words[1].partition(":")[0])
        for name in ("tcp", "tcp6")
        for words in map(str.split, Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:])
        if words[3] == "0A" and words[9] in sockets
    ]
    assert len(listening) > 3
    loopback = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert {address for _, address in listening} <= loopback


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""


def test_a_client_without_the_token_is_refused(provider: LocalProvider) -> None:
    script = f"from ray._raylet import GcsClient; print(GcsClient({provider.address!r}).get_all_node_info(9))"
    ours = {name: value for name, value in os.environ.items() if name.startswith("RAY_AUTH")}
    others = {name: value for name, value in os.environ.items() if name not in ours}
    wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    assert "state" in _run(script, others | ours)
    assert "nauthenticated" in _run(script, others | {"RAY_AUTH_MODE": "disabled"})
    assert "nauthenticated" in _run(script, others | wrong)


def _run(script: str, environment: dict[str, str]) -> str:
    environment |= {"RAY_gcs_rpc_server_reconnect_timeout_s": "5"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_the_token_and_its_folder_are_private(provider: LocalProvider) -> None:
    folder = folder_of(provider)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert os.environ["RAY_AUTH_TOKEN_PATH"] == str(folder / "token")


def test_it_does_not_open_where_ray_is_connected_already(fleet: LocalProvider) -> None:
    with pytest.raises(ExecutionError, match=r"connected to a Ray cluster already.*--address.*ray\.shutdown"):
        LocalProvider(setting()).open()


def test_a_script_with_its_own_ray_init_is_told_before_it_is_checked(
    fleet: LocalProvider, tmp_path: Path
) -> None:
    def trained(config: object) -> float:
        raise AssertionError("not before it is refused")

    with pytest.raises(ExecutionError, match=r"connected to a Ray cluster already.*leave out ray\.init\(\)"):
        elastune.tune(trained, space={"lr": [0.1]}, metric="accuracy", search="random", folder=tmp_path)


def test_it_must_be_open(fleet: LocalProvider) -> None:
    closed = LocalProvider(setting())
    with pytest.raises(InvariantError, match="is not open"):
        closed.request("a", 1)
    with pytest.raises(InvariantError, match="is not open"):
        closed.survey()
    assert closed.pids == ()
    closed.close()


def test_a_time_to_live_of_nothing_is_an_error() -> None:
    with pytest.raises(JobError, match=r"expire after 0\.0 s, expected more than 0"):
        LocalProvider(setting(expires_s=0.0))


def test_it_is_known_by_its_name() -> None:
    assert known_providers().count("local") == 1
    made = load_provider("local")(
        ProviderSetting(run="r", terms=setting().terms, clock=time.monotonic, options={"slot_gpus": 3})
    )
    assert isinstance(made, LocalProvider)
    assert made.resources() == (0.0, 6.0)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"region": "moon"}, "but was given region"),
        ({"slot_gpus": "two"}, "slot_gpus is 'two', expected a whole number"),
    ],
)
def test_its_options_are_checked(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(JobError, match=complaint):
        load_provider("local")(
            ProviderSetting(run="r", terms=setting().terms, clock=time.monotonic, options=options)
        )


def test_to_know_it_takes_no_ray() -> None:
    imports = "import sys, elastune.job, elastune.providers.local.provider, elastune.providers.attached"
    script = f"{imports}; assert 'ray' not in sys.modules"
    assert _run(script, dict(os.environ)) == ""


PREAMBLE = """
import os, signal, sys, time
from elastune.model.cluster import ClusterTerms
from elastune.providers.protocol import ProviderSetting
from elastune.providers.local.provider import LocalProvider

terms = ClusterTerms(slots_per_node=2, max_nodes=4, price_per_hour=36.0)
setting = ProviderSetting(run="r", terms=terms, clock=time.monotonic, expires_s={expires_s})

def await_ready(provider, count):
    while sum(machine.ready_s is not None for machine in provider.survey().machines) < count:
        time.sleep(0.01)

def print_all():
    import ray
    node = provider.ray_node(provider.survey().machines[0].node)
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    ray.get(ray.remote(num_cpus=1)(lambda: 0).options(scheduling_strategy=strategy).remote())
    print("pids", *provider.pids)
    print("folder", provider._folder.path, flush=True)
"""
OPENING = """
provider = LocalProvider(setting)
provider.open()
provider.request("a", {nodes})
await_ready(provider, {ready})
"""


def drive(
    body: str,
    *,
    nodes: int = 1,
    ready: int = 1,
    opened: bool = True,
    expires_s: float | None = None,
    environment: dict[str, str] | None = None,
) -> str:
    """What a driver of its own prints until it ends, however it does."""
    opening = OPENING.format(nodes=nodes, ready=ready) if opened else ""
    script = PREAMBLE.format(expires_s=expires_s) + opening + textwrap.dedent(body)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=clean | (environment or {}), capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        start_new_session=True,
    )  # fmt: skip
    if done.returncode != 0 and "folder" not in done.stdout:
        raise AssertionError(done.stderr)
    return done.stdout


def read_pids(printed: str) -> tuple[tuple[int, ...], Path]:
    """What `print_all` printed."""
    pids, folder = re.findall(r"^(?:pids|folder) (.+)$", printed, re.MULTILINE)
    return tuple(map(int, pids.split())), Path(folder)


def assert_vanished(printed: str) -> None:
    pids, folder = read_pids(printed)
    assert len(pids) > 6
    wait_until(lambda: alive(pids) == [])
    wait_until(lambda: not folder.exists())


class TestFleetsOfTheirOwn:
    """These run in processes of their own, because this one is connected to the shared fleet."""

    def test_nothing_is_left_after_close(self, tmp_path: Path) -> None:
        printed = drive(
            """
            before = dict(os.environ)
            for name in ("first", "second"):
                with LocalProvider(setting) as provider:
                    provider.request("a", 1)
                    await_ready(provider, 1)
                    pids, folder = provider.pids, provider._folder.path
                    assert len(pids) > 5 and folder.exists()
                assert os.environ == before | {"RAY_CLIENT_MODE": "0"}
                provider.close()
                print(*pids)
                print(folder)
            import ray
            assert not ray.is_initialized()
            """,
            opened=False, environment={"HOME": str(tmp_path)},
        ).splitlines()  # fmt: skip
        for pids, folder in zip(printed[::2], printed[1::2], strict=True):
            assert alive(tuple(map(int, pids.split()))) == []
            assert not Path(folder).exists()
        wait_until(lambda: not list(Path("/dev/shm").glob("*plasma*")))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "ending", ["SIGKILL", pytest.param("SIGINT", marks=SLOW), pytest.param("exit", marks=SLOW)]
    )
    def test_nothing_outlives_the_driver(self, ending: str) -> None:
        end = "sys.exit()" if ending == "exit" else f"os.killpg(0, signal.{ending}); time.sleep(60)"
        assert_vanished(drive(f"print_all(); {end}"))

    @SLOW
    def test_the_supervisor_ends_all_when_it_is_asked_to(self) -> None:
        assert_vanished(
            drive(
                """
                print_all()
                os.kill(provider.pids[0], signal.SIGTERM)
                while provider.survey().machines: time.sleep(0.01)
                os._exit(0)
                """
            )
        )

    def test_a_supervisor_that_is_killed_takes_all_nodes_with_it(self) -> None:
        printed = drive(
            """
            print_all()
            os.kill(provider.pids[0], signal.SIGKILL)
            while provider.survey().machines: time.sleep(0.01)
            provider.request("b", 1)
            print(provider.survey().requests[1])
            assert provider.pids == ()
            provider.close()
            """
        )
        assert "refused=1, reason='the supervisor of the local nodes ended" in printed
        assert_vanished(printed)

    @SLOW
    def test_processes_end_even_if_driver_and_supervisor_are_killed_at_once(self) -> None:
        printed = drive(
            "print_all(); os.kill(provider.pids[0], signal.SIGKILL); os.kill(os.getpid(), signal.SIGKILL)"
        )
        pids, folder = read_pids(printed)
        wait_until(lambda: alive(pids) == [])
        sweep()
        assert not folder.exists()

    @SLOW
    def test_a_boot_that_hangs_stays_booting_until_it_is_released(self) -> None:
        printed = drive(
            """
            provider.request("b", 1)
            await_ready(provider, 2)
            hung = [machine.node for machine in provider.survey().machines if machine.ready_s is None]
            assert len(hung) == 1
            provider.release(hung)
            assert not set(hung) & {machine.node for machine in provider.survey().machines}
            from elastune.providers.local.processes import NODE, tagged
            while tagged(NODE, hung[0]): time.sleep(0.01)
            print("ended")
            provider.close()
            """,
            nodes=2, ready=1, environment={HANGING_BOOTS: "1"},
        )  # fmt: skip
        assert printed.strip() == "ended"

    def test_the_log_of_a_node_that_died_while_it_booted_outlives_the_cluster(self) -> None:
        printed = drive(
            """
            from elastune.providers.local.processes import NODE, kill, tagged
            while not provider.survey().machines: time.sleep(0.01)
            (node,) = (machine.node for machine in provider.survey().machines if machine.ready_s is None)
            log = provider._folder.ray_logs / f"raylet-{node}.err"
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text("out of file descriptors")
            for pid in tagged(NODE, node): kill(pid)
            while provider.survey().machines: time.sleep(0.01)
            provider.close()
            print(provider.boot_logs()[node].splitlines()[-1])
            """,
            nodes=1, ready=0, environment={HANGING_BOOTS: "1"},
        )  # fmt: skip
        assert printed.strip() == "out of file descriptors"

    @SLOW
    def test_a_node_ends_with_its_time_to_live(self) -> None:
        printed = drive(
            """
            while provider.survey().machines: time.sleep(0.01)
            print(len(provider.survey().requests[0].granted))
            provider.close()
            """,
            expires_s=1.5,
        )
        assert printed.strip() == "1"
