"""launchbench: build graphs.cu, measure every GPU at every N, aggregate, report."""

from pathlib import Path

from snakemake.utils import min_version

try:
    from launchbench.workflow.snakefile import check_file, check_place, or_exit
except ModuleNotFoundError as missing:
    raise SystemExit(f"launchbench: {missing} in this environment; `make report` makes one that has it") from None

min_version("9.0")
or_exit(check_place, workflow.basedir)
or_exit(check_file, Path("config.yaml"))  # stricter than Snakemake, so before it reads the file


configfile: "config.yaml"


report: "workflow/report/workflow.rst"


# One measurement at a time in each job of a cluster, not on the whole cluster.
resource_scopes:
    measurements="local",


localrules:
    all,
    build,
    aggregate,
    report,


include: "workflow/rules/common.smk"
include: "workflow/rules/build.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/pointers.smk"
include: "workflow/rules/lengths.smk"
include: "workflow/rules/decode.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/report.smk"


# The receipts too: Snakemake does not make a lost input of something that is there and up to date.
rule all:
    default_target: True
    input:
        lambda wildcards: PLAN.all_receipts(),
        lambda wildcards: POINTERS.receipts(),
        lambda wildcards: LENGTHS.receipts(),
        lambda wildcards: DECODE.receipts(),
        f"{REPORTS}/comparison.html",


# Snakemake starts nothing that depends on a failed job; the cards that worked have their report all the same. It
# goes to a folder of its own: outputs that a rule did not make would hide from the next run what is still missing.
onerror:
    shell(
        "python -m launchbench reasons --log={log:q};"
        " python -m launchbench aggregate --out {BUILD:q}/incomplete"
        " && python -m launchbench report --tables {BUILD:q}/incomplete --incomplete || true"
    )
