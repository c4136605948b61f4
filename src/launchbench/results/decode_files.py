"""Decode jobs on disk: the record and the CSV of the repetitions."""

from __future__ import annotations

from launchbench.results.decode import DECODE_FORMAT, DecodeRecord
from launchbench.results.decode_columns import DECODE_REPETITIONS
from launchbench.results.decode_words import KIND
from launchbench.results.extra_files import ExtraKind

DECODE = ExtraKind(KIND, DECODE_FORMAT, DecodeRecord, DECODE_REPETITIONS)
