"""Which visible card a job gets, what it is called here, and what is said when there is none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from launchbench.config.model import Config
from launchbench.config.names import slug
from launchbench.errors import LaunchbenchError
from launchbench.measure import cards
from launchbench.measure.cards import Card, choose, visible_cards
from launchbench.measure.driver import DriverError

CONFIG = Config()


def a_card(
    name: str, capability: tuple[int, int] = (9, 0), digits: str = "12345678", kind: str = "GPU", index: int = 0
) -> Card:
    return Card(index, name, f"{kind}-{digits}-0000-0000-0000-000000000000", capability, "0000:01:00.0", 132)


def config(**names: str) -> Config:
    """Labels of compute capability 9.0, each with the expression that finds it."""
    return Config.model_validate({"gpus": {k: {"name": v, "compute_capability": "9.0"} for k, v in names.items()}})


T4 = a_card("Tesla T4", (7, 5), "aaaaaaaa")
H100 = a_card("NVIDIA H100 80GB HBM3", (9, 0), "bbbbbbbb", index=1)
H100_SECOND = a_card("NVIDIA H100 80GB HBM3", (9, 0), "cccccccc", index=2)
SLICE = a_card("NVIDIA H100 80GB HBM3 MIG 1g.10gb", (9, 0), "dddddddd", "MIG", index=3)


@pytest.mark.parametrize(
    ("card", "label"),
    [
        (T4, "t4"),
        (H100, "h100"),
        (a_card("NVIDIA H200"), "h200"),
        (a_card("NVIDIA A100-SXM4-40GB", (8, 0)), "a100"),
        (a_card("nvidia a100 80gb pcie", (8, 0)), "a100"),
        # The right words with another compute capability, or within another word.
        (a_card("NVIDIA H100", (8, 9)), "h100-sm89"),
        (a_card("NVIDIA T400", (7, 5)), "t400"),
        (a_card("NVIDIA GeForce RTX 4090", (8, 9)), "geforce-rtx-4090"),
        (SLICE, "h100-80gb-hbm3-mig-1g.10gb"),
    ],
)
def test_labels(card: Card, label: str) -> None:
    assert card.label(CONFIG) == label


def test_a_slice_has_a_label_of_its_own_only() -> None:
    both = config(h100=r"\bH100\b", h100_slice=r"H100.*MIG 1g\.10gb")
    assert (H100.label(both), SLICE.label(both)) == ("h100", "h100_slice")


def test_a_card_that_no_entry_identifies_never_gets_an_entrys_label() -> None:
    """Whatever it is named: also where the name that is made for it is taken, and the next one too."""
    stranger = a_card("H100", (8, 9))
    assert slug("H100") == "h100"
    assert stranger.label(config(h100="H100")) == "h100-sm89"
    taken = Config.model_validate(
        {
            "gpus": {
                "h100": {"name": "H100", "compute_capability": "9.0"},
                "h100-sm89": {"name": "other", "compute_capability": "8.9"},
            }
        }
    )
    assert stranger.label(taken) not in taken.gpus


def test_a_card_that_several_entries_match() -> None:
    with pytest.raises(LaunchbenchError) as caught:
        H100.label(config(h100="H100", hopper="H[12]00", other="x"))
    assert str(caught.value) == (
        "gpus: the card 'NVIDIA H100 80GB HBM3' matches h100, hopper; expected one label; narrow the names"
    )


def test_ids() -> None:
    assert (T4.id, SLICE.id) == ("aaaaaaaa", "mig-dddddddd")
    assert (T4.is_mig, SLICE.is_mig) == (False, True)
    assert a_card("x", digits="ABCDEF01").id == "abcdef01"


def test_what_probe_prints() -> None:
    assert SLICE.to_dict() == {
        "index": 3,
        "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "uuid": "MIG-dddddddd-0000-0000-0000-000000000000",
        "compute_capability": (9, 0),
        "pci_bus_id": "0000:01:00.0",
        "multiprocessors": 132,
        "card": "mig-dddddddd",
    }


# --- choosing


def test_the_first_of_a_type_or_a_certain_one() -> None:
    visible = [T4, H100, H100_SECOND, SLICE]
    assert choose(visible, CONFIG, "h100") is H100
    assert choose(visible, CONFIG, "h100", "cccccccc") is H100_SECOND
    assert choose(visible, CONFIG, "t4", "aaaaaaaa") is T4
    assert choose(visible, CONFIG, SLICE.label(CONFIG), "mig-dddddddd") is SLICE


def why_not(visible: list[Card], label: str, card: str | None = None) -> str:
    with pytest.raises(LaunchbenchError) as caught:
        choose(visible, CONFIG, label, card)
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_another_card_is_never_measured_instead() -> None:
    found = "found Tesla T4 = t4 (card aaaaaaaa), NVIDIA H100 80GB HBM3 = h100 (card bbbbbbbb): nothing was measured"
    assert why_not([T4, H100], "h200") == f"asked to measure h200; {found}"
    # The right card under another label, and the right label with another card.
    assert why_not([T4, H100], "h200", "bbbbbbbb") == f"asked to measure h200 (card bbbbbbbb); {found}"
    assert why_not([T4, H100], "h100", "aaaaaaaa") == f"asked to measure h100 (card aaaaaaaa); {found}"
    # Neither a beginning of the id, nor one in capitals.
    assert why_not([T4, H100], "h100", "bbbb") == f"asked to measure h100 (card bbbb); {found}"
    assert why_not([], "t4") == "asked to measure t4; found none: nothing was measured"


def test_a_slice_is_not_taken_for_the_card() -> None:
    found = f"found {SLICE.name} = h100-80gb-hbm3-mig-1g.10gb (card mig-dddddddd): nothing was measured"
    assert why_not([SLICE], "h100") == f"asked to measure h100; {found}"
    assert why_not([SLICE], "h100", "dddddddd") == f"asked to measure h100 (card dddddddd); {found}"


def test_a_simulated_card_is_measured_only_where_that_is_allowed() -> None:
    simulated = a_card("launchbench virtual H100", (9, 0), "eeeeeeee")
    reason = "launchbench virtual H100 (card eeeeeeee): a simulated GPU, and virtual_results is 'refuse'"
    assert (simulated.is_virtual, H100.is_virtual) == (True, False)
    assert why_not([simulated, H100], "h100") == f"{reason}: nothing was measured"
    assert choose([simulated, H100], CONFIG, "h100", "bbbbbbbb") is H100
    allowing = Config(virtual_results="allow", results_dir="simulated")
    assert choose([simulated, H100], allowing, "h100") is simulated


def test_a_label_with_control_characters_stays_in_one_line() -> None:
    assert why_not([], "t4\n\x1b[31m") == r"asked to measure t4\n\x1b[31m; found none: nothing was measured"


# --- asking the driver


def driver(monkeypatch: pytest.MonkeyPatch, *devices: tuple[bytes, tuple[int, int], str, bytes]) -> None:
    """Answers of the driver: name as the C string in its buffer, compute capability, UUID in hex, PCI address."""

    def call(name: str, *arguments: Any) -> Any:
        if name == "cuDeviceGetCount":
            return len(devices)
        if name in ("cuInit", "cuDeviceGet"):
            return arguments[-1]
        text, capability, uuid, address = devices[arguments[-1]]
        if name == "cuDeviceGetAttribute":
            return {75: capability[0], 76: capability[1], 16: 40}[int(arguments[0])]
        return {
            "cuDeviceGetName": text.ljust(256, b"\0"),
            "cuDeviceGetUuid": SimpleNamespace(bytes=bytes.fromhex(uuid)),
            "cuDeviceGetPCIBusId": address.ljust(64, b"\0"),
        }[name]

    monkeypatch.setattr(cards, "call", call)
    monkeypatch.setattr(cards, "require_series", lambda: None)


HEX = "0123456789abcdef0123456789abcdef"


def test_cards_as_the_driver_describes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    driver(
        monkeypatch,
        (b"Tesla T4", (7, 5), HEX, b"0000:3B:00.0"),
        (b"NVIDIA H100 80GB HBM3 MIG 1g.10gb", (9, 0), HEX, b"0000:41:00.0"),
    )
    assert visible_cards() == [
        Card(0, "Tesla T4", "GPU-01234567-89ab-cdef-0123-456789abcdef", (7, 5), "0000:3B:00.0", 40),
        Card(
            1,
            "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "MIG-01234567-89ab-cdef-0123-456789abcdef",
            (9, 0),
            "0000:41:00.0",
            40,
        ),
    ]


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"Tesla T4\0garbage\xff", "Tesla T4"),
        (b"  Tesla T4 ", "Tesla T4"),
        (b"Gr\xc3\xb6\xc3\x9fe", "Größe"),
        (b"T4 \xff\xfe", "T4 \ufffd\ufffd"),
        (b"T4\n\x1b[31m", "T4\ufffd\ufffd[31m"),
        (b"MIGHTY 9000", "MIGHTY 9000"),
        (b"", ""),
    ],
)
def test_names_are_one_printable_line(monkeypatch: pytest.MonkeyPatch, raw: bytes, name: str) -> None:
    driver(monkeypatch, (raw, (7, 5), HEX, b"0000:01:00.0"))
    [card] = visible_cards()
    assert (card.name, card.is_mig) == (name, False)
    assert card.label(CONFIG)


def test_no_device_is_an_error_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(name: str, *_: Any) -> Any:
        raise DriverError(name, 100, "CUDA_ERROR_NO_DEVICE")

    monkeypatch.setattr(cards, "call", call)
    with pytest.raises(DriverError, match=r"^cuInit failed: CUDA_ERROR_NO_DEVICE \(100\); no visible GPU"):
        visible_cards()
