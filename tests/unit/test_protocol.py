"""The identity of a measurement: equal hashes, and only those, may be compared."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from launchbench.results.protocol import (
    COMPARED_MODES,
    FLOAT32_EXACT_COUNT,
    KERNELS,
    LAUNCH_PATHS,
    MODES,
    PROTOCOL_VERSION,
    Protocol,
)

DEFAULT = {"version": 5, "repetitions": 3, "warmup_rounds": 5, "warmup_ms": 200}
DEFAULT |= {"placements": 700, "full_placements": 25, "pool_mib": 512}


FIRST_PATHS = ("native-driver", "native-runtime", "cuda-python")


def test_the_hashes_never_change() -> None:
    """Results that are filed carry them: a change here separates every old result from every new one."""
    protocol = Protocol(version=1, repetitions=50, warmup_rounds=5, warmup_ms=200)
    made = {f"{path} {kernel}": protocol.block_hash(path, kernel) for path in FIRST_PATHS for kernel in KERNELS}
    assert made == {
        "native-driver tiny": "5d0f20442694",
        "native-driver empty": "a3e119196451",
        "native-runtime tiny": "d3ea177888b3",
        "native-runtime empty": "2c869a7d663d",
        "cuda-python tiny": "4b5b2f39de12",
        "cuda-python empty": "fd9cce3ed59b",
    }
    assert Protocol(**DEFAULT).block_hash("native-driver", "tiny") == "f917897375b9"


def test_names_that_are_filed_stay() -> None:
    assert (
        *("native-driver", "native-runtime", "cuda-bindings", "cuda-python"),
        *("cupy", "numba", "triton", "torch"),
    ) == LAUNCH_PATHS
    assert set(FIRST_PATHS) < set(LAUNCH_PATHS)
    assert (KERNELS, PROTOCOL_VERSION) == (("tiny", "empty"), 5)
    assert (
        *("loop", "replay", "replay-batch", "replay-queued", "queued"),
        *("loop-dependent", "replay-dependent", "fused-memory", "fused-register"),
    ) == MODES
    assert MODES[:2] == COMPARED_MODES


def test_float32_stops_counting_where_it_is_said_to() -> None:
    import numpy as np

    at = np.float32(FLOAT32_EXACT_COUNT)
    assert at + np.float32(1) == at
    assert (at - np.float32(1)) + np.float32(1) == at and at - np.float32(1) != at


@pytest.mark.parametrize("field", list(Protocol.model_fields))
def test_every_parameter_changes_the_hash(field: str) -> None:
    changed = DEFAULT | {field: DEFAULT.get(field, 0) + 1}
    assert Protocol(**changed).block_hash("cuda-python", "tiny") != Protocol(**DEFAULT).block_hash(
        "cuda-python", "tiny"
    )


def test_path_and_kernel_change_the_hash() -> None:
    protocol = Protocol(**DEFAULT)
    made = {protocol.block_hash(path, kernel) for path, kernel in itertools.product(LAUNCH_PATHS, KERNELS)}
    assert len(made) == len(LAUNCH_PATHS) * len(KERNELS) == 16
    # Joined without a separator, these would be the same.
    assert protocol.block_hash("a", "bc") != protocol.block_hash("ab", "c")


def test_the_version_is_the_present_one_where_none_is_given() -> None:
    given = {name: value for name, value in DEFAULT.items() if name != "version"}
    assert Protocol(**given) == Protocol(**DEFAULT)


def test_the_hash_does_not_depend_on_the_process() -> None:
    code = (
        "from launchbench.results.protocol import Protocol\n"
        "print(Protocol(version=1, repetitions=50, warmup_rounds=5, warmup_ms=200).block_hash('native-driver', 'tiny'))"
    )
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        )
        assert done.stdout == "5d0f20442694\n"


@pytest.mark.parametrize(
    "change",
    [
        {"placements": 0},
        {"full_placements": 0},
        {"pool_mib": 0},
        {"repetitions": 0},
        {"warmup_rounds": 0},
        {"warmup_ms": -1},
        {"repetitions": 1.5},
        {"more": 1},
    ],
)
def test_what_cannot_be_timed_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Protocol(**DEFAULT | change)


def test_a_protocol_cannot_be_changed_after_its_hash_was_taken() -> None:
    with pytest.raises(ValidationError):
        Protocol(**DEFAULT).repetitions = 3  # type: ignore[misc]
