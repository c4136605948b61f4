"""The record: short card names, moments, and what its models refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from launchbench.results import record
from launchbench.results.record import DeviceState, Record, card_id, record_schema, utc_text
from tests.unit.fabricate import write_job

MODELS = [
    value
    for value in vars(record).values()
    if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == record.__name__
]


@pytest.mark.parametrize(
    ("uuid", "expected"),
    [
        ("GPU-12345678-9abc-def0-1234-56789abcdef0", "12345678"),
        ("GPU-ABCDEF01-9abc-def0-1234-56789abcdef0", "abcdef01"),
        ("MIG-ABCDEF01-9abc-def0-1234-56789abcdef0", "mig-abcdef01"),
        ("GPU-1234", "1234"),
    ],
)
def test_card_id(uuid: str, expected: str) -> None:
    assert card_id(uuid) == expected


def test_a_slice_and_a_card_of_equal_digits_are_not_the_same() -> None:
    assert card_id("GPU-12345678-0") != card_id("MIG-12345678-0")


def test_utc_text_is_utc_and_has_a_fixed_width() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert utc_text(datetime(2026, 1, 31, 2, 0, tzinfo=east)) == "2026-01-30T20:30:00.000000Z"
    assert utc_text(datetime(2026, 1, 31, 12, 0, 0, 7, tzinfo=UTC)) == "2026-01-31T12:00:00.000007Z"


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.1Z", "2026-11-30T01:02:03.000045Z"])
def test_moments(text: str) -> None:
    assert DeviceState(taken_utc=text).taken_utc == text


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00:00+00:00", "2026-01-31 12:00:00Z",
     "x2026-01-31T12:00:00Z",
     "2026-01-31T12:00:00Z\n", "2026-01-31T12:00:00.Z", "\u0662\u0660\u0662\u0666-01-31T12:00:00Z"],
)  # fmt: skip
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValidationError):
        DeviceState(taken_utc=text)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_refuses_unknown_fields_and_changes(model: type[BaseModel]) -> None:
    assert (model.model_config["extra"], model.model_config["frozen"]) == ("forbid", True)
    assert model.model_config["allow_inf_nan"] is False


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_unknown_is_none_and_never_zero(model: type[BaseModel]) -> None:
    """Nothing that is a number has another default than None, but for what earlier formats had one of, or none."""
    defaults = {name: field.default for name, field in model.model_fields.items() if not field.is_required()}
    numbers = {name: value for name, value in defaults.items() if isinstance(value, int | float)}
    known = {"Block": {"attempt": 0, "refused_updates": 0}, "Record": {"trial": 1}}
    assert numbers == known.get(model.__name__, {})


def test_a_moment_without_answers_has_no_values() -> None:
    state = DeviceState(taken_utc="2026-01-31T12:00:00Z").model_dump()
    assert {value for name, value in state.items() if name not in ("taken_utc", "unavailable")} == {None}


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "-x", "a b", "a\n", "é", "x" * 129])
@pytest.mark.parametrize("field", ["site", "label", "run_id"])
def test_names_that_could_leave_their_folder(tmp_path: Path, field: str, name: str) -> None:
    fields: dict[str, Any] = json.loads(write_job(tmp_path, 8, repetitions=1).read_bytes())
    with pytest.raises(ValidationError) as caught:
        Record.model_validate(fields | {field: name})
    assert [error["loc"] for error in caught.value.errors()] == [(field,)]


def test_the_record_on_disk_is_indented_json_with_all_fields(tmp_path: Path) -> None:
    text = write_job(tmp_path, 8, repetitions=1).read_text(encoding="utf-8")
    assert text.startswith('{\n "format": "launchbench-record/3",\n') and text.endswith("\n}\n")
    assert list(json.loads(text)) == list(Record.model_fields)


def test_the_schema_is_of_this_format_and_closed() -> None:
    schema = json.loads(record_schema())
    assert schema["properties"]["format"]["enum"][-1] == record.RECORD_FORMAT == "launchbench-record/3"
    assert schema["properties"]["format"]["enum"] == [f"launchbench-record/{number}" for number in (1, 2, 3)]
    assert schema["additionalProperties"] is False
    assert all(part["additionalProperties"] is False for part in schema["$defs"].values())


def test_a_record_of_the_first_format_has_one_sample_of_each_cost(tmp_path: Path) -> None:
    fields: dict[str, Any] = json.loads(write_job(tmp_path, 8, repetitions=1).read_bytes())
    fields["format"] = "launchbench-record/1"
    fields["blocks"][0]["capture_us"], fields["blocks"][0]["upload_us"] = 123.702, 7
    block = Record.model_validate_json(json.dumps(fields), strict=True).blocks[0]
    assert (block.capture_us, block.upload_us, len(block.instantiate_us)) == ([123.702], [7.0], 5)


@pytest.mark.parametrize("value", [[], [1.0, -1.0], [None], "1", None, True])
def test_what_is_no_list_of_times(tmp_path: Path, value: Any) -> None:
    fields: dict[str, Any] = json.loads(write_job(tmp_path, 8, repetitions=1).read_bytes())
    fields["blocks"][0]["capture_us"] = value
    with pytest.raises(ValidationError):
        Record.model_validate_json(json.dumps(fields), strict=True)
