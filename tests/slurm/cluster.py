"""A real SLURM on this machine: munge, slurmctld and one slurmd for each node, from Debian's packages.

Every job of a node sees the cards that `Cluster.hand_out` has put there, and no other. Accounting is off, as on many
small clusters, although a program `sacct` is installed.

The configuration has to lie in /etc/slurm: Snakemake removes SLURM_CONF from the environment of what it submits.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.virtual_gpu import VARIABLE, Card, Fault, VirtualGpu

ETC = Path("/etc/slurm")
CONFIGURATION = (ETC / "slurm.conf", ETC / "gres.conf")
PROGRAMS = ("setpriv", "munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")
MARK = "# launchbench: of its tests, removed at their end"
PARTITION = "gpu"
START_S = 60

SLURM_CONF = """{mark}
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/prolog
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
KillWait=2
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/%n.pid
SlurmdLogFile={folder}/%n.log
SlurmdSpoolDir={folder}/%n.spool
{nodes}
PartitionName={partition} Nodes=ALL Default=YES MaxTime=60 State=UP
"""


def why_not() -> str | None:
    """The reason why no SLURM can be started here, or None."""
    if os.geteuid():
        return "slurmd has to be started by root"
    absent = [program for program in PROGRAMS if not shutil.which(program)]
    if absent:
        return f"{', '.join(absent)} not installed (Debian: apt-get install slurm-wlm munge)"
    for path in CONFIGURATION:
        if path.exists() and not path.read_text().startswith(MARK):
            return f"{path} is there: this machine belongs to a cluster"
    return None


@dataclass(frozen=True)
class Node:
    """A node with one GPU of a SLURM type, which may have a hyphen."""

    name: str
    gpu_type: str


@dataclass
class Cluster:
    """A running SLURM; `start` makes one. Everything that it writes lies in ``folder`` and in /etc/slurm."""

    folder: Path
    nodes: Sequence[Node]
    gpu: VirtualGpu
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def hand_out(self, node: str, cards: Sequence[Card], faults: Sequence[Fault] = (), **more: object) -> None:
        """What the jobs of a node see from now on; without cards they have no driver."""
        lines = []
        if cards:
            environment = self.gpu.environment(cards, faults, modelled_clock=True, **more)
            config = self.folder / f"{node}.cards"
            config.write_text(environment[VARIABLE])
            clock = environment["PYTHONPATH"].split(os.pathsep)[0]
            variables = {VARIABLE: config, "LD_LIBRARY_PATH": self.gpu.folder, "PYTHONPATH": f"{clock}:$PYTHONPATH"}
            variables["LD_PRELOAD"] = environment["LD_PRELOAD"]
            lines = [f'echo "export {name}={value}"' for name, value in variables.items()]
        # The task of a job is given what this prints, in the environment of the task.
        (self.folder / f"{node}.prolog").write_text("".join(f"{line}\n" for line in lines))

    def command(self, *arguments: str) -> str:
        """Standard output of one of SLURM's commands."""
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def jobs(self, fields: str = "%i|%k|%T|%N") -> list[list[str]]:
        """The jobs that SLURM still knows, each as these fields of squeue."""
        text = self.command("squeue", "--states=all", "--noheader", f"--format={fields}")
        return [line.split("|") for line in text.splitlines()]

    def until(self, what: str, holds: Callable[[], object], timeout_s: float = 60) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}\n{self.command('squeue')}"
            time.sleep(0.2)

    def _all_idle(self) -> bool:
        with contextlib.suppress(AssertionError):
            states = self.command("sinfo", "--Node", "--noheader", "--format=%N %T").splitlines()
            return sorted(states) == sorted(f"{node.name} idle" for node in self.nodes)
        return False

    def make_ready(self) -> None:
        """No jobs, and every node up: what each test begins with."""
        self.command("scancel", "--user=root")
        self.until("no job is left", lambda: not self.command("squeue", "--noheader"))
        for node in self.nodes:
            if "DRAIN" in self.command("scontrol", "show", "node", node.name):
                self.command("scontrol", "update", f"NodeName={node.name}", "State=RESUME")
        self.until("the nodes are idle", self._all_idle, START_S)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _configure(cluster: Cluster) -> None:
    host = socket.gethostname()
    folder = cluster.folder
    port, *ports = _free_ports(1 + len(cluster.nodes))
    lines = [
        f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=2000"
        f" Gres=gpu:{node.gpu_type}:1"
        for node, port in zip(cluster.nodes, ports, strict=True)
    ]
    devices = []
    for node in cluster.nodes:
        device = folder / f"{node.name}.device"  # as it is no real one, SLURM sets no CUDA_VISIBLE_DEVICES
        device.touch()
        devices.append(f"NodeName={node.name} Name=gpu Type={node.gpu_type} File={device}")
        cluster.hand_out(node.name, [])
    for name in ("state", *(f"{node.name}.spool" for node in cluster.nodes)):
        (folder / name).mkdir()
    prolog = folder / "prolog"
    prolog.write_text(f'#!/bin/sh\n. "{folder}/$SLURMD_NODENAME.prolog"\n')
    prolog.chmod(0o755)
    text = SLURM_CONF.format(
        mark=MARK, host=host, port=port, folder=folder, nodes="\n".join(lines), partition=PARTITION
    )
    for path, content in zip(CONFIGURATION, (text, "\n".join([MARK, *devices, ""])), strict=True):
        path.write_text(content)


def _start(cluster: Cluster, *command: str, environment: Mapping[str, str] | None = None) -> None:
    log = (cluster.folder / f"{Path(command[0]).name}.out").open("ab")
    # They end with the process that started them, also where that is killed.
    bound = ["setpriv", "--pdeathsig", "TERM", *command]
    with log:
        process = subprocess.Popen(
            bound, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
        )
    cluster.daemons.append(process)


@contextlib.contextmanager
def start(folder: Path, nodes: Sequence[Node], gpu: VirtualGpu) -> Iterator[Cluster]:
    """A SLURM with these nodes, of which nothing is left afterwards: no process and no file outside ``folder``.

    Args:
        folder: new; its path may have no space, and is short (a socket lies in it).
        nodes: one slurmd is started for each.
        gpu: what jobs see once `Cluster.hand_out` says so.
    """
    cluster = Cluster(folder, nodes, gpu)
    folder.chmod(0o755)
    try:
        _configure(cluster)
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        names = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        options = [f"--{option}={folder}/munge.{name}" for option, name in names.items()]
        _start(cluster, "munged", "--foreground", "--force", *options)
        cluster.until("munged listens", (folder / "munge.socket").exists, START_S)
        # SLURM_CONF of another cluster would win over /etc/slurm.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        _start(cluster, "slurmctld", "-D", environment=environment)
        for node in nodes:
            _start(cluster, "slurmd", "-D", "-N", node.name, environment=environment)
        cluster.until("the nodes are idle", cluster._all_idle, START_S)
        yield cluster
    finally:
        _stop(cluster)


def _stop(cluster: Cluster) -> None:
    if cluster.daemons:
        with contextlib.suppress(AssertionError, subprocess.SubprocessError):
            cluster.command("scancel", "--user=root")
            cluster.until("no job is left", lambda: not cluster.command("squeue", "--noheader"), 20)
    for process in reversed(cluster.daemons):
        process.terminate()
    for process in reversed(cluster.daemons):
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for path in CONFIGURATION:
        if path.exists() and path.read_text().startswith(MARK):
            path.unlink()
