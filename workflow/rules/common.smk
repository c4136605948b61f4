"""Validated configuration and the plan of this run; no rule."""

from launchbench.workflow.plan import Plan
from launchbench.build.compile import build_flags
from launchbench.sources import AGGREGATING_MODULES, MEASURING_MODULES, REPORTING_MODULES, digest, file_digest
from launchbench.workflow.snakefile import hand_to_commands, settings

CONFIG = or_exit(
    settings, config, workflow.configfiles, workflow.config_settings.configfiles, workflow.config_settings.config
)
hand_to_commands(CONFIG)
PLAN = Plan(CONFIG)
or_exit(PLAN.cells)  # asks for the cards once, before any rule does
BUILD = CONFIG.build_dir
REPORTS = CONFIG.reports_dir
