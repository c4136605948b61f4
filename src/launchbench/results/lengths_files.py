"""Lengths jobs on disk: the record and the CSV of the repetitions."""

from __future__ import annotations

from launchbench.results.extra_files import ExtraKind
from launchbench.results.lengths import LENGTHS_FORMAT, LengthsRecord
from launchbench.results.lengths_columns import LENGTH_REPETITIONS
from launchbench.results.lengths_words import KIND

LENGTHS = ExtraKind(KIND, LENGTHS_FORMAT, LengthsRecord, LENGTH_REPETITIONS)
