"""Which GPUs CUDA shows to this process, and what they are called here.

Visibility is the driver's business: indices, UUIDs, shortened UUIDs and MIG slices in
``CUDA_VISIBLE_DEVICES`` are never parsed here, only what the driver then shows is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from launchbench.config.messages import escaped
from launchbench.config.model import Config
from launchbench.config.names import slug
from launchbench.errors import LaunchbenchError
from launchbench.measure.driver import call, require_series
from launchbench.results.failures import ON_SIMULATED
from launchbench.results.record import card_id

VIRTUAL_NAME = "launchbench virtual"
"""A GPU of this name is simulated; its numbers are no evidence about any card."""


@dataclass(frozen=True)
class Card:
    """One visible GPU or MIG slice; ``index`` is CUDA's, in this process."""

    index: int
    name: str
    uuid: str
    compute_capability: tuple[int, int]
    pci_bus_id: str
    multiprocessors: int

    @property
    def id(self) -> str:
        """Short form of the UUID, used in paths."""
        return card_id(self.uuid)

    @property
    def is_mig(self) -> bool:
        """Whether this is a slice of a GPU."""
        return self.uuid.startswith("MIG-")

    @property
    def is_virtual(self) -> bool:
        """Whether this GPU is simulated."""
        return self.name.lower().startswith(VIRTUAL_NAME)

    def label(self, config: Config) -> str:
        """Label of ``config.gpus`` that identifies this card, else one made from its name.

        A card that no entry identifies never gets the label of an entry, even where their names agree.

        Raises:
            LaunchbenchError: several labels match.
        """
        known = config.label_for(self.name, self.compute_capability)
        if known is not None:
            return known
        made = slug(self.name)
        while made in config.gpus:
            made = "{}-sm{}{}".format(made, *self.compute_capability)
        return made

    def to_dict(self) -> dict[str, object]:
        """Plain values, for ``launchbench probe``."""
        return {**asdict(self), "card": self.id}


def visible_cards() -> list[Card]:
    """All GPUs that the driver shows to this process, in CUDA's order.

    Raises:
        NoDriverError: libcuda.so.1 is not there.
        DriverError: the driver shows no GPU or failed.
        LaunchbenchError: the driver is too old for this cuda-python.
    """
    from cuda.bindings.driver import CUdevice_attribute as Attribute

    call("cuInit", 0)
    require_series()
    cards = []
    for index in range(int(call("cuDeviceGetCount"))):
        device = call("cuDeviceGet", index)
        name = _text(call("cuDeviceGetName", 256, device))
        major, minor, processors = (
            int(call("cuDeviceGetAttribute", attribute, device))
            for attribute in (
                Attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                Attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                Attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            )
        )
        digits = bytes(call("cuDeviceGetUuid", device).bytes).hex()
        prefix = "MIG" if " MIG " in f"{name} " else "GPU"
        cards.append(
            Card(
                index=index,
                name=name,
                uuid=f"{prefix}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}",
                compute_capability=(major, minor),
                pci_bus_id=_text(call("cuDeviceGetPCIBusId", 64, device)),
                multiprocessors=processors,
            )
        )
    return cards


def _text(raw: bytes) -> str:
    text = raw.split(b"\0", 1)[0].decode("utf-8", errors="replace")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text).strip()


def choose(cards: list[Card], config: Config, label: str, card: str | None = None) -> Card:
    """The visible card that a job was asked for.

    Args:
        cards: the visible ones.
        config: names the labels.
        label: GPU type that the job was asked for.
        card: short UUID, where one certain card is meant.

    Raises:
        LaunchbenchError: no visible card fits; says what was asked and what was found. Or the one that does is
            simulated, and the configuration does not allow that.
    """
    fitting = [one for one in cards if one.label(config) == label and card in (None, one.id)]
    if fitting:
        if fitting[0].is_virtual and config.virtual_results != "allow":
            reason = "a simulated GPU, and virtual_results is 'refuse': nothing was measured"
            raise LaunchbenchError(escaped(f"{fitting[0].name} (card {fitting[0].id}): {reason}"))
        return fitting[0]
    asked = label if card is None else f"{label} (card {card})"
    found = ", ".join(f"{one.name} = {one.label(config)} (card {one.id})" for one in cards) or "none"
    raise LaunchbenchError(escaped(f"asked to measure {asked}; found {found}: nothing was measured"))


@contextmanager
def told_if_simulated(card: Card) -> Iterator[None]:
    """Errors of a job on a simulated GPU carry the note ``ON_SIMULATED``."""
    try:
        yield
    except Exception as error:
        if card.is_virtual:
            error.add_note(ON_SIMULATED)
        raise
