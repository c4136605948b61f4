"""Validated configuration and the plan of this run; no rule."""

from launchbench.workflow.cluster import RESOURCES, check_resources
from launchbench.workflow.extra import ExtraPlan
from launchbench.workflow.plan import Plan
from launchbench.workflow.published import published_identity
from launchbench.build.compile import build_flags
from launchbench.decode import installed
from launchbench.sources import (
    AGGREGATING_MODULES,
    DECODE_MODULES,
    LENGTHS_MODULES,
    MEASURING_MODULES,
    POINTERS_MODULES,
    REPORTING_MODULES,
    digest,
    file_digest,
)
from launchbench.workflow.snakefile import hand_to_commands, settings


def measures_again():
    # Known once the rules are read: --forceall, or --forcerun measure.
    return bool((known := workflow.dag_settings) and (known.forceall or "measure" in known.forcerun))


def asked_of_cluster(name):
    return lambda wildcards: PLAN.requests(wildcards.label).get(name)


CONFIG = or_exit(
    settings, config, workflow.configfiles, workflow.config_settings.configfiles, workflow.config_settings.config
)
hand_to_commands(CONFIG)
PLAN = Plan(CONFIG, again=measures_again)
POINTERS = ExtraPlan(PLAN, "pointers")
LENGTHS = ExtraPlan(PLAN, "lengths")
DECODE = ExtraPlan(PLAN, "decode")
or_exit(PLAN.cells)  # asks for the cards once, before any rule does
BUILD = CONFIG.build_dir
REPORTS = CONFIG.reports_dir

# Jobs that Snakemake starts elsewhere do not read the profile.
if "measurements" not in workflow.global_resources:
    workflow.register_resource("measurements", 1)
if CONFIG.slurm:
    set_resources = workflow.resource_settings.overwrite_resources
    given = {f"--set-resources {rule}": names for rule, names in set_resources.items()}
    or_exit(check_resources, {**given, "--default-resources": workflow.resource_settings.default_resources or ()})
