"""What a user sees: lines on standard error, exit codes, and that nothing is written when something is wrong.

Also what stands directly behind it: messages, errors of the driver, and the loading of the native loops.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import launchbench
from launchbench import __main__ as command_line
from launchbench.__main__ import main
from launchbench.config.messages import escaped, refusal, shown
from launchbench.config.model import SETTINGS_VARIABLE, Config
from launchbench.errors import LaunchbenchError
from launchbench.measure import cards, driver, job, lengths_job
from launchbench.measure.driver import DeviceMemory, DriverError, NoDriverError, call, check, driver_version, naming
from launchbench.measure.lock import LOCK_DIR
from launchbench.measure.native import Interval, NativeLoops, check_driver, check_runtime
from launchbench.pointers import job as pointers_job
from launchbench.results.failures import read_failures
from launchbench.schemas import GENERATED
from launchbench.workflow.snakefile import hand_to_commands, or_exit
from tests.unit.fabricate import write_sweep

COMMANDS = ["probe", "build", "measure", "pointers", "lengths", "decode", "reasons", "aggregate", "report", "compare"]
COMMANDS += ["export", "doctor", "schemas"]
NO_DRIVER = (
    "no NVIDIA driver on this machine (libcuda.so.1 not found): measuring needs a card; "
    "`make report-cached` renders the report from the results that are here"
)


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


without_driver = pytest.mark.skipif(_has_driver(), reason="this machine has an NVIDIA driver")


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder and no settings from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SETTINGS_VARIABLE, raising=False)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "launchbench", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines of a command that ends with 1, less the program's name."""
    assert main(arguments) == 1
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.removesuffix("\n").split("\n")
    assert all(line.startswith("launchbench: ") and line.isprintable() for line in lines)
    return [line.removeprefix("launchbench: ") for line in lines]


def binaries(folder: Path) -> Path:
    """A manifest, so that measuring gets as far as asking for a card."""
    folder.mkdir(parents=True, exist_ok=True)
    text = {
        "nvcc": {"version": "13.0.88"},
        "host_compiler": {"name": "g++", "version": "13"},
        "flags": [],
        "architectures": ["sm_75"],
        "source": {"sha256": "0" * 64},
        "products": {},
    }
    (folder / "build.json").write_text(json.dumps(text))
    return folder


# --- help


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    listed = [line.split()[0] for line in text.splitlines() if line.startswith("    ") and not line.startswith("     ")]
    assert listed == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    said = capsys.readouterr()
    assert (ended.value.code, said.err) == (0, "")
    assert said.out.startswith(f"usage: launchbench {command} ") and "--config" in said.out


def test_help_and_tables_need_neither_cuda_nor_nvml(tmp_path: Path) -> None:
    write_sweep(tmp_path / "results", (8, 64), repetitions=3)
    (tmp_path / "config.yaml").write_text("launch_counts: [8, 64]\n")
    code = (
        "import sys\n"
        "for name in ('cuda', 'pynvml', 'cuda.core', 'cuda.bindings', 'cuda.pathfinder'): sys.modules[name] = None\n"
        "from launchbench.__main__ import main\n"
        "print(main(['aggregate', '--out', 'tables']))\n"
        "main(['measure', '--help'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "aggregate: 1 card, 1 read anew\n")
    assert done.stdout.startswith("0\nusage: launchbench measure ")
    names = [
        "anatomy",
        "cures",
        "fits",
        "gaps",
        "modes",
        "pointers",
        "pointers_gaps",
        "summary",
        "trials",
        "unmeasured",
    ]
    names += ["crossovers", "length_models", "lengths", "lengths_gaps", "decode", "decode_jobs", "decode_gaps"]
    assert sorted(path.name for path in Path("tables").iterdir()) == sorted(
        [*(f"{name}.csv" for name in names), "tidy"]
    )


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"{launchbench.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "launchbench: error: the following arguments are required: command"),
        (["unknown"], "invalid choice: 'unknown'"),
        (["probe", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["measure"], "the following arguments are required: --label, --launch-count"),
        (["measure", "--label", "t4", "--launch-count", "x"], "invalid int value: 'x'"),
        (["measure", "--label", "t4", "--launch-count", "1e3"], "invalid int value: '1e3'"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert message in said.err and "Traceback" not in said.err


# --- the configuration


@pytest.mark.parametrize(
    "command", [["aggregate"], ["report"], ["probe"], ["measure", "--label=t4", "--launch-count=8"]]
)
def test_no_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]) -> None:
    assert fails(capsys, *command) == ["config.yaml: No such file or directory; expected a readable file"]
    [line] = fails(capsys, *command, "--config", "other\n.yaml")
    assert line == r"other\n.yaml: No such file or directory; expected a readable file"
    assert tree(tmp_path) == {}


def test_every_mistake_in_the_configuration_is_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("repetitions: 0\nlaunch_counts: [8, 8]\n")
    lines = fails(capsys, "aggregate")
    assert [line.split(": got")[0] for line in lines] == ["config.yaml: launch_counts[1]", "config.yaml: repetitions"]
    assert list(tree(tmp_path)) == ["config.yaml"]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", "not JSON: Expecting value"),
        ("{", "not JSON: Expecting property name"),
        ("repetitions: 5", "not JSON: Expecting value"),
        ("[" * 100_000, "not JSON: maximum recursion depth exceeded"),
        ('{"repetitions": ' + "9" * 5000 + "}", "not JSON: Exceeds the limit"),
        ("[]", "got []; expected lines of the form 'key: value'"),
        ("5", "got 5; expected lines of the form 'key: value'"),
        ('{"repetitions": 0}', "repetitions: got 0; expected a whole number from 1 to 100000"),
        ('{"repetitions": NaN}', "repetitions: got nan; expected a whole number from 1 to 100000"),
        ('{"a\\nb": 1}', r"['a\\nb']: got an unknown key"),
    ],
    ids=lambda text: text[:20],
)
def test_settings_that_are_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, start: str
) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, text)
    [line] = fails(capsys, "aggregate")
    assert line.startswith(f"{SETTINGS_VARIABLE}: {start}".replace("\\\\", "\\"))


def test_settings_win_over_the_file_that_is_there_but_not_over_one_that_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_sweep(tmp_path / "mine", (8,), repetitions=3)
    (tmp_path / "none").mkdir()
    (tmp_path / "config.yaml").write_text("results_dir: none\nlaunch_counts: [8]\n")
    monkeypatch.setenv(SETTINGS_VARIABLE, json.dumps({"results_dir": "mine", "launch_counts": [8]}))
    assert main(["aggregate", "--out", "from-settings"]) == 0
    assert main(["aggregate", "--out", "from-file", "--config", "config.yaml"]) == 0
    sizes = [len((tmp_path / name / "summary.csv").read_text().splitlines()) for name in ("from-settings", "from-file")]
    assert sizes == [5, 1]
    assert capsys.readouterr().err == "aggregate: 1 card, 1 read anew\naggregate: 0 cards, 0 read anew\n"


# --- measuring


@without_driver
def test_measuring_without_a_driver_says_so_in_one_line_and_writes_only_that(tmp_path: Path) -> None:
    """Not that nothing is built: building would not help."""
    (tmp_path / "config.yaml").write_text("{}\n")
    before = tree(tmp_path), sorted(LOCK_DIR.glob("launchbench-*.lock"))
    done = started(
        "measure",
        "--site=centre",
        "--label=t4",
        "--launch-count=8",
        "--receipt=build/cells/receipt.json",
        HOME=str(tmp_path),
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"launchbench: {NO_DRIVER}\n")
    (failure,) = read_failures(tmp_path / "build")
    assert (failure.site, failure.label, failure.card, failure.launch_count) == ("centre", "t4", "any", 8)
    assert failure.reason == NO_DRIVER
    shutil.rmtree(tmp_path / "build")
    assert (tree(tmp_path), sorted(LOCK_DIR.glob("launchbench-*.lock"))) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml"]


@without_driver
def test_probing_without_a_driver(tmp_path: Path) -> None:
    done = started("probe", **{SETTINGS_VARIABLE: "{}"})
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"launchbench: {NO_DRIVER}\n")
    assert tree(tmp_path) == {}


def test_a_library_of_the_driver_that_cannot_be_loaded_is_told_as_such(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(b"")
    done = started("probe", LD_LIBRARY_PATH=str(tmp_path), **{SETTINGS_VARIABLE: "{}"})
    told = NO_DRIVER.replace("not found", f"cannot be loaded: {library}: file too short")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"launchbench: {told}\n")


def test_probing_with_cards(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the plan reads: label and short UUID of each, in CUDA's order."""
    found = [
        cards.Card(0, "Tesla T4", "GPU-0123ABCD-0-0-0-0", (7, 5), "0000:01:00.0", 40),
        cards.Card(1, "NVIDIA L4", "GPU-4567abcd-0-0-0-0", (8, 9), "0000:02:00.0", 58),
    ]
    monkeypatch.setattr(cards, "visible_cards", lambda: found)
    monkeypatch.setenv(SETTINGS_VARIABLE, "{}")
    assert main(["probe"]) == 0
    said = capsys.readouterr()
    assert [(card["label"], card["card"], card["name"]) for card in json.loads(said.out)] == [
        ("t4", "0123abcd", "Tesla T4"),
        ("l4", "4567abcd", "NVIDIA L4"),
    ]
    assert said.err == ""


def test_measuring_before_building(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(job, "visible_cards", list)
    (tmp_path / "config.yaml").write_text("{}\n")
    assert fails(capsys, "measure", "--label=t4", "--launch-count=8") == [
        "build/cuda/build.json: No such file or directory; `launchbench build` makes it"
    ]
    assert list(tree(tmp_path)) == ["config.yaml"]


@pytest.mark.parametrize("count", ["0", "-1", "1048577", "9" * 30])
def test_an_n_that_no_result_could_have(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, count: str
) -> None:
    """Said before anything is measured, not when it is filed."""
    monkeypatch.setenv(SETTINGS_VARIABLE, "{}")
    expected = f"--launch-count: got {count}; expected a whole number from 1 to 1048576"
    assert fails(capsys, "measure", "--label=t4", f"--launch-count={count}") == [expected]


def test_what_a_job_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[job.Job, Config]] = []
    record = write_sweep(tmp_path / "results", (8,), repetitions=1)[0].relative_to(tmp_path)

    def run(request: job.Job, config: Config) -> Path:
        asked.append((request, config))
        return record

    monkeypatch.setattr(job, "run", run)
    monkeypatch.setenv(SETTINGS_VARIABLE, json.dumps({"site": "lab", "repetitions": 7}))
    arguments = ["measure", "--label=-odd", "--launch-count=1048576", "--binaries=b", "--receipt=deep/receipt.json"]
    assert main([*arguments, "--card=any"]) == 0
    assert main([*arguments, "--card=12345678", "--trial=2"]) == 0
    assert [request for request, _ in asked] == [
        job.Job("-odd", None, 1_048_576, "lab", Path("b")),
        job.Job("-odd", "12345678", 1_048_576, "lab", Path("b"), trial=2),
    ]
    assert {config.repetitions for _, config in asked} == {7}
    assert capsys.readouterr().out == f"{record}\n" * 2
    sizes = json.loads(Path("deep/receipt.json").read_bytes())["size_bytes"]
    assert {Path("results") / name: size for name, size in sizes.items()} == {
        path: path.stat().st_size for path in (record, record.with_suffix(".csv"))
    }


@pytest.mark.parametrize(
    "command", [["measure", "--label=t4", "--launch-count=8"], ["pointers", "--label=t4"], ["lengths", "--label=t4"]]
)
def test_a_receipt_that_cannot_be_written_is_refused_before_measuring(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: list[str]
) -> None:
    for module in (job, pointers_job, lengths_job):
        monkeypatch.setattr(module, "run", lambda *_: pytest.fail("it was measured"))
    monkeypatch.setenv(SETTINGS_VARIABLE, "{}")
    Path("folder").mkdir()
    Path("file").touch()
    expected = "--receipt: got 'folder', which is a folder; expected a file to write"
    assert fails(capsys, *command, "--receipt=folder") == [expected]
    expected = "file: cannot be written: Not a directory; expected a folder to write to"
    assert fails(capsys, *command, "--receipt=file/receipt.json") == [expected]
    assert tree(tmp_path) == {"file": b""}


def test_the_card_that_was_found_is_not_the_one_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(job, "visible_cards", list)
    monkeypatch.setenv(SETTINGS_VARIABLE, "{}")
    arguments = ("measure", "--label=t\n4", "--launch-count=8", f"--binaries={binaries(tmp_path / 'b')}")
    assert fails(capsys, *arguments) == [r"asked to measure t\n4; found none: nothing was measured"]
    assert list(tree(tmp_path)) == ["b/build.json"]


def test_a_protocol_is_that_of_the_configuration() -> None:
    config = Config(repetitions=7, warmup_rounds=3, warmup_ms=11, placements=9, full_placements=2, pool_mib=5)
    assert job.protocol_of(config).model_dump(exclude_none=True) == {
        "version": 5,
        "repetitions": 7,
        "warmup_rounds": 3,
        "warmup_ms": 11,
        "placements": 9,
        "full_placements": 2,
        "pool_mib": 5,
    }


# --- other commands


def test_the_schemas_are_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for folder in ("workflow/schemas", "docs"):
        (tmp_path / "project" / folder).mkdir(parents=True)
    assert main(["schemas", "--project", "project"]) == 0
    assert tree(tmp_path) == {f"project/{name}": text().encode() for name, text in GENERATED.items()}
    (tmp_path / "project/docs/columns.md").unlink()
    (tmp_path / "project/docs/columns.md").mkdir()
    [line] = fails(capsys, "schemas", "--project", "project")
    assert line.startswith("project/docs/columns.md: cannot be written: ")


@pytest.mark.parametrize(
    ("project", "missing"),
    [("absent", "absent"), ("file", "file"), (".", "workflow/schemas")],
)
def test_schemas_are_written_into_no_other_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, project: str, missing: str
) -> None:
    Path("file").write_bytes(b"")
    assert fails(capsys, "schemas", "--project", project) == [
        f"--project: {missing}: no such folder; expected the root of the project"
    ]
    assert list(tree(tmp_path)) == ["file"]


def test_aggregating_into_a_file(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, "{}")
    Path("file").write_bytes(b"")
    Path("results").mkdir()
    assert fails(capsys, "aggregate", "--out", "file") == ["file/tidy: cannot be written: file is not a folder"]


def test_a_report_without_tables(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, "{}")
    [line] = fails(capsys, "report", "--tables", "no where")
    assert line.startswith("no where/") and "cannot be read: No such file or directory" in line


# --- ends


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(command_line, "_probe", fail)


def test_the_log_has_the_traceback_of_what_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "rule.log"
    log.write_text("so far\n")
    monkeypatch.setenv("LAUNCHBENCH_LOG", str(log))
    ending(monkeypatch, LaunchbenchError("card: is \udcff gone"))
    assert fails(capsys, "probe") == [r"card: is \udcff gone"]
    lines = log.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["so far", "Traceback (most recent call last):"]
    assert lines[-1] == r"launchbench.errors.LaunchbenchError: card: is \udcff gone"
    monkeypatch.setenv("LAUNCHBENCH_LOG", str(tmp_path / "no/folder"))
    assert fails(capsys, "probe") == [r"card: is \udcff gone"]


def test_a_machine_without_memory_is_no_bug(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, MemoryError())
    assert fails(capsys, "probe") == ["out of memory: this machine has not enough for it"]


def test_a_bug_is_told_as_one_with_its_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, KeyError("oops"))
    assert main(["probe"]) == 3
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert said.out == ""
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-2:] == [
        "KeyError: 'oops'",
        "launchbench: this is a bug; the traceback above belongs in a report of it",
    ]


def test_every_line_of_an_error_is_printable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ending(monkeypatch, LaunchbenchError("one\ntwo\x1b[31m\r\u2028three\x85\udcff µ"))
    assert main(["probe"]) == 1
    assert capsys.readouterr().err == ("launchbench: one\nlaunchbench: two\\x1b[31m\\r\\u2028three\\x85\\udcff µ\n")


def test_snakemake_ends_with_the_same_lines(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(first: int, *, second: int) -> int:
        raise LaunchbenchError(f"one {first}\ntwo {second}\x1b\u2028")

    with pytest.raises(SystemExit) as ended:
        or_exit(fail, 1, second=2)
    assert ended.value.code == 1
    assert ended.value.__suppress_context__
    assert capsys.readouterr().err == "launchbench: one 1\nlaunchbench: two 2\\x1b\\u2028\n"
    assert or_exit(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        or_exit(divmod, 7, 0)


def test_an_interrupt_while_snakemake_reads_the_rules_is_one_line() -> None:
    code = "from launchbench.workflow.snakefile import or_exit\ndef end(): raise KeyboardInterrupt\nor_exit(end)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (done.stderr, done.returncode) == (b"launchbench: interrupted\n", -signal.SIGINT)


def test_commands_of_rules_find_configuration_and_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, "")
    monkeypatch.setenv("PATH", "/somewhere")
    config = Config(site="lab", repetitions=7)
    hand_to_commands(config)
    assert command_line._config(SimpleNamespace(config=None)) == config  # type: ignore[arg-type]
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}:/somewhere"
    assert shutil.which("python") is not None


ENDS_EARLY = """
import sys
from launchbench import __main__ as line
def end(_):
    {how}
line._config = end
sys.exit(line.main(["aggregate"]))
"""


@pytest.mark.parametrize(
    ("how", "said", "status"),
    [
        ("raise KeyboardInterrupt", b"launchbench: interrupted\n", -signal.SIGINT),
        ("print('x', flush=True)", b"", 1),
    ],
    ids=["interrupt", "reader of the output has ended"],
)
def test_the_users_own_ending_is_no_bug(how: str, said: bytes, status: int) -> None:
    command = [sys.executable, "-c", ENDS_EARLY.format(how=how)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (said, status)


# --- messages


def test_escaped_keeps_what_is_printable() -> None:
    assert escaped("a b µ 显 \\ '") == "a b µ 显 \\ '"
    assert escaped("\n\r\t\x00\x1b\x7f\x9b\u2028\u202e\ufeff\udcff\U000e0001") == (
        r"\n\r\t\x00\x1b\x7f\x9b\u2028\u202e\ufeff\udcff\U000e0001"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        ("a\nb", r"'a\nb'"),
        (None, "None"),
        (float("nan"), "nan"),
        ([1, [2, [3, [4, [5]]]]], "[1, [2, [3, [...]]]]"),
        (10**5000, "a whole number of 16610 bits"),
        (-(10**50), "a whole number of 167 bits"),
    ],
    ids=["int", "text", "None", "nan", "list", "huge", "negative"],
)
def test_shown(value: object, text: str) -> None:
    assert shown(value)[:20] == text[:20]
    assert shown(value).isprintable()


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, ["y" * 100] * 100, {str(n): n for n in range(10**4)}, b"\xff" * 10**6],
    ids=["text", "list", "dict", "bytes"],
)
def test_shown_is_short(value: object) -> None:
    assert len(shown(value)) <= 60


def test_a_refusal_says_where_what_and_what_was_expected() -> None:
    assert str(refusal("a\nb", "got \x1b", "text")) == r"a\nb: got \x1b; expected text"


# --- errors of the driver


@pytest.mark.parametrize(
    ("visible", "shown_as"),
    [(None, "not set"), ("", "''"), ("-1", "'-1'"), ("GPU-12,MIG-\n", r"'GPU-12,MIG-\n'")],
)
def test_no_visible_device(monkeypatch: pytest.MonkeyPatch, visible: str | None, shown_as: str) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    error = DriverError("cuInit", 100, "CUDA_ERROR_NO_DEVICE")
    assert str(error) == (
        f"cuInit failed: CUDA_ERROR_NO_DEVICE (100); no visible GPU (CUDA_VISIBLE_DEVICES={shown_as})"
    )
    assert (error.call, error.code) == ("cuInit", 100)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (1, "CUDA_ERROR_INVALID_VALUE (1)"),
        (209, "CUDA_ERROR_NO_BINARY_FOR_GPU (209); the binary has no code for this card"),
        (218, "CUDA_ERROR_INVALID_PTX (218); the driver cannot compile the binary's PTX"),
        (222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222); the binary's PTX is newer than the driver"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803); the installed user-mode driver does not match the "),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE (804); this card is not supported by the forward-compat"),
        (910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE (910)"),
        (123_456, "unknown CUresult (123456)"),
        (-1, "unknown CUresult (-1)"),
    ],
)
def test_a_status_of_a_native_loop(code: int, message: str) -> None:
    for function in (lambda: check("cuLaunchKernel", code), lambda: check_driver(code)):
        with pytest.raises(DriverError) as caught:
            function()
        assert str(caught.value).startswith(f"cuLaunchKernel failed: {message}")
        assert caught.value.code == code
        if code in (1, 910, 123_456):
            assert str(caught.value).endswith(message)


def test_success_raises_nothing() -> None:
    check("cuLaunchKernel", 0)
    check_driver(0)
    check_runtime(0)


def test_a_status_of_the_runtime() -> None:
    with pytest.raises(LaunchbenchError) as caught:
        check_runtime(719)
    assert str(caught.value) == "<<<>>> through the CUDA runtime failed: cudaError_t 719"


@without_driver
def test_the_bindings_without_a_driver() -> None:
    for function in (lambda: call("cuInit", 0), driver_version, lambda: DeviceMemory(4)):
        with pytest.raises(NoDriverError) as caught:
            function()
        assert str(caught.value) == NO_DRIVER
    from cuda.core import Device

    with pytest.raises(NoDriverError), naming("cuDevicePrimaryCtxRetain"):
        Device(0).set_current()


def answering(monkeypatch: pytest.MonkeyPatch, name: str, answer: Callable[..., Any]) -> None:
    from cuda.bindings import driver as bindings

    monkeypatch.setattr(bindings, name, answer)


def test_what_a_call_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings.driver import CUresult

    success = CUresult.CUDA_SUCCESS
    answering(monkeypatch, "cuInit", lambda *got: (success,))
    answering(monkeypatch, "cuDriverGetVersion", lambda *got: (success, 13020))
    answering(monkeypatch, "cuDeviceGetName", lambda *got: (success, *got))
    assert call("cuInit", 0) is None
    assert driver_version() == "13.2"
    assert call("cuDeviceGetName", 256, 3) == (256, 3)
    answering(monkeypatch, "cuInit", lambda *got: (CUresult.CUDA_ERROR_UNKNOWN,))
    with pytest.raises(DriverError, match=r"^cuInit failed: CUDA_ERROR_UNKNOWN \(999\)$"):
        call("cuInit", 0)


def test_a_driver_that_is_too_old_for_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError('Function "cuKernelGetFunction"\nnot found')

    answering(monkeypatch, "cuKernelGetFunction", missing)
    with pytest.raises(LaunchbenchError) as caught:
        call("cuKernelGetFunction", 1)
    assert str(caught.value) == 'cuKernelGetFunction failed: Function "cuKernelGetFunction" not found'


def test_errors_of_cuda_core_name_the_call() -> None:
    from cuda.core._utils.cuda_utils import CUDAError

    with pytest.raises(LaunchbenchError) as caught, naming("cuLibraryLoadData"):
        raise CUDAError("CUDA_ERROR_UNSUPPORTED_PTX_VERSION:\n  newer")
    assert str(caught.value) == (
        "cuLibraryLoadData failed: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222); the binary's PTX is newer than the driver"
    )
    with pytest.raises(LaunchbenchError) as caught, naming("cuA", "cuB", "cuC"):
        raise RuntimeError("999")
    assert str(caught.value) == "cuA, cuB or cuC failed: CUDA_ERROR_UNKNOWN (999)"
    with pytest.raises(LaunchbenchError) as caught, naming("cuEventCreate"):
        raise RuntimeError("no event\n here")
    assert str(caught.value) == "cuEventCreate failed: no event here"
    with pytest.raises(ValueError, match="mine"), naming("cuLibraryLoadData"):
        raise ValueError("mine")


def memory_calls(monkeypatch: pytest.MonkeyPatch, free_fails: bool = False) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def fake(name: str, *arguments: Any) -> Any:
        calls.append((name, *arguments))
        if name == "cuMemFree" and free_fails:
            raise DriverError(name, 700, "CUDA_ERROR_ILLEGAL_ADDRESS")
        return 0x7F00

    monkeypatch.setattr(driver, "call", fake)
    return calls


def test_memory_is_freed_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = memory_calls(monkeypatch)
    with DeviceMemory(4) as memory:
        assert (memory.address, memory.size_bytes) == (0x7F00, 4)
    with pytest.raises(KeyError), DeviceMemory(8):
        raise KeyError
    assert calls == [("cuMemAlloc", 4), ("cuMemFree", 0x7F00), ("cuMemAlloc", 8), ("cuMemFree", 0x7F00)]


def test_the_first_error_is_the_one_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    memory_calls(monkeypatch, free_fails=True)
    with pytest.raises(KeyError), DeviceMemory(4):
        raise KeyError
    with pytest.raises(DriverError, match="cuMemFree failed"), DeviceMemory(4):
        pass


# --- the native loops

LOOPS = """
#include <stdint.h>
#include <stdio.h>
static char said[200];
const char *last(void) { return said; }
int launchbench_issue_driver(void *function, void *stream, uint64_t buffer, unsigned count) {
  snprintf(said, sizeof said, "driver %p %p %llx %u", function, stream, (unsigned long long)buffer, count);
  return 222;
}
int launchbench_issue_dependent(void *function, void *stream, uint64_t buffer, unsigned count) {
  snprintf(said, sizeof said, "dependent %p %p %llx %u", function, stream, (unsigned long long)buffer, count);
  return 0;
}
int launchbench_issue_fused(void *function, void *stream, uint64_t buffer, unsigned count) {
  snprintf(said, sizeof said, "fused %p %p %llx %u", function, stream, (unsigned long long)buffer, count);
  return 0;
}
int launchbench_issue_spin(void *function, void *stream, uint64_t buffer, unsigned count, uint64_t cycles) {
  snprintf(said, sizeof said, "spin %p %p %llx %u %llx", function, stream, (unsigned long long)buffer, count,
           (unsigned long long)cycles);
  return 0;
}
int launchbench_issue_runtime_tiny(void *stream, void *buffer, unsigned count) {
  snprintf(said, sizeof said, "tiny %p %p %u", stream, buffer, count);
  return 0;
}
int launchbench_issue_runtime_empty(void *stream, void *buffer, unsigned count) {
  snprintf(said, sizeof said, "empty %p %p %u", stream, buffer, count);
  return -1;
}
int launchbench_issue_replay(void *graph, void *stream, unsigned count) {
  snprintf(said, sizeof said, "replay %p %p %u", graph, stream, count);
  return 0;
}
long long launchbench_host_ns(void) { return 5000000000; }
struct interval { void *first, *second, *stream; long long begin, issued; int recorded; };
#define TIMED(name, parameters, ...) \\
  int launchbench_time_##name parameters { \\
    interval->begin = (long long)(uintptr_t)interval->first; \\
    interval->issued = (long long)(uintptr_t)interval->second; \\
    interval->recorded = 7; \\
    return launchbench_issue_##name(__VA_ARGS__); \\
  }
#define KERNEL (struct interval *interval, void *function, void *stream, uint64_t buffer, unsigned count)
TIMED(driver, KERNEL, function, stream, buffer, count)
TIMED(dependent, KERNEL, function, stream, buffer, count)
TIMED(fused, KERNEL, function, stream, buffer, count)
TIMED(spin, (struct interval *interval, void *function, void *stream, uint64_t buffer, unsigned count, uint64_t cycles),
      function, stream, buffer, count, cycles)
#define RUNTIME (struct interval *interval, void *stream, void *buffer, unsigned count)
TIMED(runtime_tiny, RUNTIME, stream, buffer, count)
TIMED(runtime_empty, RUNTIME, stream, buffer, count)
TIMED(replay, (struct interval *interval, void *graph, void *stream, unsigned count), graph, stream, count)
"""


def compiled(tmp_path: Path, source: str) -> Path:
    """A shared library of this C source."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "loops.c").write_text(source)
    path = tmp_path / "loops.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(path), str(tmp_path / "loops.c")], check=True)
    return path


def test_every_argument_reaches_the_native_loop(tmp_path: Path) -> None:
    """Addresses beyond 32 bits, and N beyond 31."""
    path = compiled(tmp_path, LOOPS)
    loops = NativeLoops(path)
    last = ctypes.CDLL(str(path)).last
    last.restype = ctypes.c_char_p
    function, stream, buffer, count = 0x7FFF_1234_5678, 0x7EEE_8765_4321, 0xFEDC_BA98_7654_3210, 4_000_000_000
    assert loops.driver_loop(function, stream, buffer, count)() == 222
    assert last() == b"driver 0x7fff12345678 0x7eee87654321 fedcba9876543210 4000000000"
    for kind in ("dependent", "fused"):
        assert loops.driver_loop(function, stream, buffer, count, kind)() == 0
        assert last() == f"{kind} 0x7fff12345678 0x7eee87654321 fedcba9876543210 4000000000".encode()
    assert loops.spin_loop(function, stream, buffer, count, 0x1_0000_0001)() == 0
    assert last() == b"spin 0x7fff12345678 0x7eee87654321 fedcba9876543210 4000000000 100000001"
    assert loops.runtime_loop("tiny", stream, 0x7ABC_0000_0000, 8)() == 0
    assert last() == b"tiny 0x7eee87654321 0x7abc00000000 8"
    assert loops.runtime_loop("empty", stream, 0x7ABC_0000_0000, 8)() == -1
    assert last() == b"empty 0x7eee87654321 0x7abc00000000 8"
    assert loops.replays(function, stream, 64)() == 0
    assert last() == b"replay 0x7fff12345678 0x7eee87654321 64"


def test_a_native_loop_is_timed_in_the_call_that_issues_it(tmp_path: Path) -> None:
    """The interval and the loop's own arguments reach the library, whose clock and events come back."""
    path = compiled(tmp_path, LOOPS)
    loops = NativeLoops(path)
    last = ctypes.CDLL(str(path)).last
    last.restype = ctypes.c_char_p
    interval = Interval(0x7FFF_0000_0001, 0x7FFF_0000_0002, 0x7FFF_0000_0003)
    spun = loops.spin_loop(0x7FFF_1234_5678, 0x7EEE_8765_4321, 0x1_0000_0000, 3, 5).timed(interval)
    assert spun() == 0 and last() == b"spin 0x7fff12345678 0x7eee87654321 100000000 3 5"
    assert (interval.begin_ns, interval.issued_ns, interval.recorded) == (0x7FFF_0000_0001, 0x7FFF_0000_0002, 7)
    assert loops.replays(1, 2, 3).clock_ns() == 5_000_000_000
    assert loops.driver_loop(1, 2, 3, 4).timed(interval)() == 222
    assert loops.replays(0x7FFF_1234_5678, 2, 64).timed(interval)() == 0
    assert last() == b"replay 0x7fff12345678 0x2 64"


def why_not(path: Path) -> str:
    with pytest.raises(LaunchbenchError) as caught:
        NativeLoops(path)
    message = str(caught.value)
    assert message.isprintable() and message.startswith(f"{escaped(str(path))}: cannot be loaded: ")
    return message


def test_a_library_that_is_not_there_or_not_one(tmp_path: Path) -> None:
    assert "No such file or directory" in why_not(tmp_path / "missing.so")
    (tmp_path / "cut.so").write_bytes(b"\x7fELF")
    assert "file too short" in why_not(tmp_path / "cut.so")
    (tmp_path / "text\n.so").write_bytes(b"x" * 5000)
    assert "invalid ELF header" in why_not(tmp_path / "text\n.so")


def test_a_library_of_another_kind(tmp_path: Path) -> None:
    assert "undefined symbol: launchbench_host_ns" in why_not(compiled(tmp_path, "int x;"))
