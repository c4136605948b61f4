"""Validated configuration and the plan of this run; no rule.

SETTINGS is handed to every command, so that `--config key=value` reaches it. It is no parameter of a rule:
only what decides a product may trigger its rule again.
"""

import os
import sys
from pathlib import Path

from launchbench.plan import Plan, sources
from launchbench.provenance import MEASURING_MODULES
from launchbench.workflow import or_exit, settings

CONFIG = or_exit(settings, config, workflow.configfiles)
SETTINGS = CONFIG.model_dump_json()
PLAN = Plan(CONFIG)
or_exit(PLAN.cells)  # asks for the cards once, before any rule does
BUILD = CONFIG.build_dir
REPORTS = CONFIG.reports_dir

# Rules say `python`: it has to be the one that runs Snakemake, also where its environment is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
