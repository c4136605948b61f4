"""The command line. Each command is one step of the flow; the workflow calls the same ones."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import launchbench
from launchbench.config.folders import check_apart, check_folders, check_receipt, check_writable
from launchbench.config.messages import escaped
from launchbench.config.model import SETTINGS_VARIABLE, Config, load, read
from launchbench.config.names import host_slug, site_name
from launchbench.errors import LaunchbenchError
from launchbench.programs import end_by_interrupt
from launchbench.results.protocol import MAX_LAUNCH_COUNT
from launchbench.wording import plural

if TYPE_CHECKING:
    from launchbench.measure.extra import Request
    from launchbench.results.extra_files import ExtraKind
    from launchbench.results.failures import Attempt

LOG_VARIABLE = "LAUNCHBENCH_LOG"
"""Environment variable: file to which the traceback of an error goes that standard error tells in one line."""


def _config(arguments: argparse.Namespace) -> Config:
    settings = os.environ.get(SETTINGS_VARIABLE)
    if arguments.config is not None or settings is None:
        path = arguments.config or Path("config.yaml")
        config = read(path)
        check_folders(config, lambda _: str(path))
        return config
    try:
        return load(json.loads(settings), SETTINGS_VARIABLE)
    except (ValueError, RecursionError) as error:
        raise LaunchbenchError(f"{SETTINGS_VARIABLE}: not JSON: {error}") from error


def _probe(arguments: argparse.Namespace) -> None:
    from launchbench.measure.cards import visible_cards

    config = _config(arguments)
    print(json.dumps([{**card.to_dict(), "label": card.label(config)} for card in visible_cards()]))


def _build(arguments: argparse.Namespace) -> None:
    from launchbench.build.compile import build
    from launchbench.build.toolkit import fetch_wheels, find_toolkit, remove_unfinished_wheels

    remove_unfinished_wheels(arguments.wheels)
    toolkit = find_toolkit(arguments.wheels) or fetch_wheels(arguments.wheels, arguments.nvcc_lock)
    build(arguments.source, arguments.out, _config(arguments).architectures, toolkit)


def _measure(arguments: argparse.Namespace) -> None:
    import platform

    from launchbench.measure import job
    from launchbench.results.failures import Attempt
    from launchbench.results.record import MAX_TRIAL

    config = _config(arguments)
    if not 1 <= arguments.launch_count <= MAX_LAUNCH_COUNT:
        expected = f"a whole number from 1 to {MAX_LAUNCH_COUNT}"
        raise LaunchbenchError(f"--launch-count: got {arguments.launch_count}; expected {expected}")
    if not 1 <= arguments.trial <= MAX_TRIAL:
        raise LaunchbenchError(f"--trial: got {arguments.trial}; expected a whole number from 1 to {MAX_TRIAL}")
    request = job.Job(
        label=arguments.label,
        card=None if arguments.card == "any" else arguments.card,
        launch_count=arguments.launch_count,
        trial=arguments.trial,
        site=site_name(arguments.site) or config.site or host_slug(platform.node()),
        binaries=arguments.binaries,
    )
    check_writable(Path(config.results_dir, request.site, request.label))  # before minutes of measuring
    check_receipt(arguments.receipt)
    attempt = Attempt(request.site, request.label, arguments.card, request.launch_count, request.trial)
    record = _kept(arguments, attempt, config, lambda: job.run(request, config))
    if arguments.receipt:
        job.write_receipt(arguments.receipt, record, Path(config.results_dir))
    _print_path(record)


def _kept(arguments: argparse.Namespace, attempt: Attempt, config: Config, run: Callable[[], Path]) -> Path:
    """Run a job; where it is one of a workflow, which then has a receipt, the reason of its failure is kept."""
    from launchbench.results.failures import forget_failure, keep_failure

    build_dir = Path(config.build_dir)
    if arguments.receipt:
        forget_failure(build_dir, attempt)
    try:
        record = run()
    except Exception as error:
        if arguments.receipt:
            keep_failure(build_dir, attempt, error)
        raise
    return record


def _print_path(path: Path) -> None:
    """After everything else that a job has to do: not every terminal has every letter, and some have gone."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    print(path, flush=True)


def _pointers(arguments: argparse.Namespace) -> None:
    from launchbench.pointers import job
    from launchbench.results.pointers_files import POINTERS

    _extra(arguments, job.run, POINTERS)


def _lengths(arguments: argparse.Namespace) -> None:
    from launchbench.measure import lengths_job
    from launchbench.results.lengths_files import LENGTHS

    _extra(arguments, lengths_job.run, LENGTHS)


def _decode(arguments: argparse.Namespace) -> None:
    from launchbench.decode import job
    from launchbench.results.decode_files import DECODE

    _extra(arguments, job.run, DECODE)


def _extra(arguments: argparse.Namespace, run: Callable[[Request, Config], Path], kind: ExtraKind[Any]) -> None:
    import platform

    from launchbench.measure.extra import Request
    from launchbench.results.extra_files import write_receipt
    from launchbench.results.failures import Attempt

    config = _config(arguments)
    request = Request(
        label=arguments.label,
        card=None if arguments.card == "any" else arguments.card,
        site=site_name(arguments.site) or config.site or host_slug(platform.node()),
        binaries=arguments.binaries,
    )
    check_writable(Path(config.results_dir, request.site, request.label))  # before minutes of measuring
    check_receipt(arguments.receipt)
    attempt = Attempt(request.site, request.label, arguments.card, kind=kind.name)
    record = _kept(arguments, attempt, config, lambda: run(request, config))
    if arguments.receipt:
        write_receipt(kind, arguments.receipt, record, Path(config.results_dir))
    _print_path(record)


def _reasons(arguments: argparse.Namespace) -> None:
    from launchbench.results.layout import LAUNCH
    from launchbench.workflow.reasons import keep_reasons

    for failure in keep_reasons(arguments.log, Path(_config(arguments).build_dir)):
        numbers = f"N={failure.launch_count} trial {failure.trial}"
        subject = f"{failure.label} {numbers if failure.kind == LAUNCH else failure.kind}"
        print(f"{subject}: {failure.reason}", file=sys.stderr)


def _aggregate(arguments: argparse.Namespace) -> None:
    from launchbench.aggregate.decode import write_decode_tables
    from launchbench.aggregate.lengths import write_lengths_tables
    from launchbench.aggregate.pointers import write_pointers_tables
    from launchbench.aggregate.write import write_tables
    from launchbench.results.failures import read_failures

    config = _config(arguments)
    check_apart(config, "--out", arguments.out)
    if not Path(config.results_dir).exists():
        print(f"launchbench: results_dir: {config.results_dir} does not exist: no results to join", file=sys.stderr)
    build_dir, results_dir = Path(config.build_dir), Path(config.results_dir)
    cache, failures = build_dir / "cache" / "cards", read_failures(build_dir)
    done = write_tables(results_dir, arguments.out, cache, list(config.gpus), config.launch_counts, failures)
    print(f"aggregate: {plural(done.cards, 'card')}, {done.anew:,} read anew", file=sys.stderr)
    for name, write in (
        ("pointers", write_pointers_tables),
        ("lengths", write_lengths_tables),
        ("decode", write_decode_tables),
    ):
        write(results_dir, arguments.out, read_failures(build_dir, name))


def _report(arguments: argparse.Namespace) -> None:
    from launchbench.report.page import render

    config = _config(arguments)
    incomplete = Path(config.reports_dir) / "incomplete"
    reports = incomplete if arguments.incomplete else Path(config.reports_dir)
    results, labels = Path(config.results_dir), list(config.gpus)
    counts, processes = config.launch_counts, arguments.processes
    page = render(arguments.tables, results, reports, labels, counts, config.published, processes)
    if not arguments.incomplete:
        shutil.rmtree(incomplete, ignore_errors=True)
    print(f"report: {page}", file=sys.stderr)


def _compare(arguments: argparse.Namespace) -> int:
    from launchbench.compare.command import RENDERINGS, run

    files = {name: getattr(arguments, name) for name in RENDERINGS}
    text, status = run(arguments.before, arguments.after, files, arguments.fail_on)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names, and signs that not every terminal has
    print(text, end="")
    return status


def _export(arguments: argparse.Namespace) -> None:
    from launchbench.export.command import export

    config = _config(arguments)
    check_apart(config, "--out", arguments.out)
    count = export(arguments.tables, arguments.out, list(config.gpus), arguments.force)
    print(f"export: {plural(count, 'file')} in {arguments.out}", file=sys.stderr)


def _doctor(arguments: argparse.Namespace) -> int:
    from launchbench.doctor.checks import CHECKS
    from launchbench.doctor.examine import MAX_LIMIT_S, check, examine
    from launchbench.doctor.finding import Finding

    if arguments.check not in (None, *CHECKS):
        raise LaunchbenchError(f"--check: got {arguments.check!r}; expected one of {', '.join(CHECKS)}")
    # As a time limit or scancel ends it: temporary folders of a check are removed all the same.
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    if not 0 < arguments.limit_s <= MAX_LIMIT_S:  # nan too
        expected = f"a number above 0, at most {MAX_LIMIT_S}"
        raise LaunchbenchError(f"--limit-s: got {arguments.limit_s}; expected {expected}")
    failed = False
    try:
        config = _config(arguments)
    except LaunchbenchError as error:
        config, failed = Config(), True
        for line in str(error).split("\n"):
            print(Finding("fail", "configuration", line).line(), flush=True)
    lines = examine(config, arguments.limit_s)
    if arguments.check:
        lines = (finding.line() for finding in check(arguments.check, config))
    for line in lines:
        print(line, flush=True)
        failed = failed or line.startswith("fail ")
    return int(failed)


def _schemas(arguments: argparse.Namespace) -> None:
    from launchbench.schemas import write_generated

    write_generated(arguments.project)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="launchbench", description="What launching a kernel costs on this card.")
    parser.add_argument("--version", action="version", version=launchbench.__version__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, action: object, summary: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(action=action)
        sub.add_argument("--config", type=Path, help="configuration file (default: config.yaml)")
        return sub

    command("probe", _probe, "print the GPUs that CUDA shows here, as JSON")

    sub = command("build", _build, "compile graphs.cu: program, fatbin and native loops")
    sub.add_argument("--source", type=Path, default=Path("src/graphs.cu"))
    sub.add_argument("--out", type=Path, default=Path("build/cuda"), help="folder for the products")
    sub.add_argument("--wheels", type=Path, default=Path("build/nvcc"), help="where a fetched nvcc is kept")
    sub.add_argument("--nvcc-lock", type=Path, default=Path("requirements-nvcc.lock"), help="pins of that nvcc")

    sub = command("measure", _measure, "measure one GPU at one N, one trial of it, and file the result")
    sub.add_argument("--site", help="folder under the results (default: that of the configuration)")
    sub.add_argument("--label", required=True, help="GPU type that must be there, as in the configuration")
    sub.add_argument("--card", default="any", help="first eight hex digits of the UUID of a certain card")
    sub.add_argument("--launch-count", required=True, type=int, help="N")
    sub.add_argument("--trial", type=int, default=1, help="number of this trial, from 1 (default: 1)")
    sub.add_argument("--binaries", type=Path, default=Path("build/cuda"), help="folder with the products of build")
    sub.add_argument("--receipt", type=Path, help="file to write once the result is filed")

    for name, action, summary in (
        ("pointers", _pointers, "exercise 4 on one GPU: replays after a free, and the cures"),
        ("lengths", _lengths, "exercises 5 and 6 on one GPU: two clocks, and kernels of chosen lengths"),
        ("decode", _decode, "exercise 6 on one GPU: a decode step by PyTorch, eager and as a graph"),
    ):
        sub = command(name, action, summary)
        sub.add_argument("--site", help="folder under the results (default: that of the configuration)")
        sub.add_argument("--label", required=True, help="GPU type that must be there, as in the configuration")
        sub.add_argument("--card", default="any", help="first eight hex digits of the UUID of a certain card")
        sub.add_argument("--binaries", type=Path, default=Path("build/cuda"), help="folder with the products of build")
        sub.add_argument("--receipt", type=Path, help="file to write once the result is filed")

    sub = command("reasons", _reasons, "ask SLURM why jobs of a failed run ended that could not say so")
    sub.add_argument("--log", type=Path, required=True, help="log of that run, under .snakemake/log")

    sub = command("aggregate", _aggregate, "join all results into tables")
    sub.add_argument("--out", type=Path, default=Path("build/tables"))

    sub = command("report", _report, "render the tables into the report")
    sub.add_argument("--tables", type=Path, default=Path("build/tables"))
    sub.add_argument("--processes", type=int, choices=range(1, 65), default=1, metavar="N", help="draw in so many (1)")
    sub.add_argument("--incomplete", action="store_true", help="some jobs failed: render into <reports_dir>/incomplete")

    sub = command("compare", _compare, "two sets of results against each other: the same, faster, slower, cannot tell")
    sub.add_argument("before", metavar="A", type=Path, help="folder of results, or of a site, label or card in one")
    sub.add_argument("after", metavar="B", type=Path, help="the same of other results, which are judged against A")
    for name, what in (("markdown", "Markdown"), ("json", "JSON, launchbench-comparison/1"), ("html", "an HTML page")):
        sub.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write the comparison as {what}")
    sub.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="VERDICTS",
        help="exit status 2 where a cell is slower, faster, cannot-tell, not-comparable or missing; "
        "several are separated by commas",
    )

    sub = command("export", _export, "write the tables as CSV and Parquet, the summary as JSON and Markdown")
    sub.add_argument("--out", type=Path, required=True, help="folder; whatever else is in it stays")
    sub.add_argument("--tables", type=Path, default=Path("build/tables"))
    sub.add_argument("--force", action="store_true", help="also replace files that no earlier export wrote")

    sub = command("doctor", _doctor, "say what will work here, in lines of ok, warn and fail; exit status 1 on a fail")
    sub.add_argument("--check", help="only this one, without a time limit")
    sub.add_argument("--limit-s", type=float, default=90.0, help="seconds for each check (default: 90)")

    sub = command("schemas", _schemas, "write the generated schemas and docs/columns.md")
    sub.add_argument("--project", type=Path, default=Path(), help="root of the project")
    return parser


def _trace() -> None:
    """Append the traceback of the error at hand to the log of the rule, where one is named."""
    log = os.environ.get(LOG_VARIABLE)
    if log:
        # The line for the user must come, also where the disk is full.
        with contextlib.suppress(OSError), Path(log).open("a", encoding="utf-8", errors="backslashreplace") as stream:
            traceback.print_exc(file=stream)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 when it worked, 1 when the user has to do something (said in lines, by all but ``doctor`` on standard
        error, or the reader of its output has ended), 2 where ``compare`` found what it was to
        fail on, 3 for a bug. An interrupt ends the process by its signal.
    """
    arguments = _parser().parse_args(argv)
    try:
        status = arguments.action(arguments)
    except LaunchbenchError as error:
        _trace()
        for line in str(error).split("\n"):
            print(f"launchbench: {escaped(line)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        end_by_interrupt()
        return 130
    except BrokenPipeError:  # whoever read the output, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains once more at its end
        return 1
    except MemoryError:
        _trace()
        print("launchbench: out of memory: this machine has not enough for it", file=sys.stderr)
        return 1
    except Exception:
        traceback.print_exc()
        print("launchbench: this is a bug; the traceback above belongs in a report of it", file=sys.stderr)
        return 3
    return int(status or 0)


if __name__ == "__main__":
    sys.exit(main())
