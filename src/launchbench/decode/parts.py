"""The operations of a decode step by kind, a piece of each for every layer, in the shapes of the step.

What a step costs is predicted from these. They read the model's own parameters and cache, layer after layer, so that
a weight is no more likely in the card's cache than in the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from launchbench.decode.model import Decoder, Layer

Piece = Callable[[], object]


def parts_of(model: Decoder) -> dict[str, list[Piece]]:
    """Name of the kind -> what issues its operations, a piece for each layer and for what is around the layers.

    Args:
        model: lies where the operations are to run.
    """
    shape = model.shape
    where = model.places.device
    head_width = shape.width // shape.heads
    x = torch.randn(shape.batch, 1, shape.width, device=where)
    wide = torch.randn(shape.batch, 1, 4 * shape.width, device=where)
    split = torch.randn(shape.batch, 1, 3 * shape.width, device=where)
    # As the step has them: pieces of one tensor, which a product of more than one sequence has to copy first.
    query, key, value = split.view(shape.batch, 1, 3, shape.heads, head_width).permute(2, 0, 3, 1, 4)
    scores = torch.randn(shape.batch, shape.heads, 1, shape.context, device=where)
    around = nn.Identity()
    token = torch.zeros(shape.batch, 1, dtype=torch.long, device=where)

    def norms(layer: Layer) -> None:
        layer.before_attention(x)
        layer.before_mlp(x)

    def projections(layer: Layer) -> None:
        layer.query_key_value(x)
        layer.out(x)
        layer.up(x)
        layer.down(wide)

    def cache(layer: Layer) -> None:
        layer.keys.index_copy_(2, model.position, key)
        layer.values.index_copy_(2, model.position, value)

    def attention(layer: Layer) -> None:
        _ = query @ layer.keys.transpose(-1, -2)
        _ = scores @ layer.values

    def elementwise(_: Layer) -> None:
        _ = (scores * head_width**-0.5) + scores
        scores.softmax(-1)
        _ = x + x
        functional.gelu(wide)
        _ = x + x

    def views(layer: Layer) -> None:
        each = split.view(shape.batch, 1, 3, layer.heads, head_width)
        first, _, _ = each.permute(2, 0, 3, 1, 4)
        first.transpose(1, 2).reshape(shape.batch, 1, shape.width)
        layer.keys.transpose(-1, -2)
        around(x)  # a layer is a module around its operations

    def ends() -> None:
        _ = model.token(token) + model.place(model.position)
        torch.where(model.places > model.position, float("-inf"), 0.0)
        model.position.add_(1).clamp_(max=shape.context - 1)

    layers: list[Layer] = list(model.layers)
    kinds: tuple[Callable[[Layer], None], ...] = (norms, projections, cache, attention, elementwise, views)
    parts: dict[str, list[Piece]] = {kind.__name__: [partial(kind, layer) for layer in layers] for kind in kinds}
    parts["norms"].append(partial(model.last, x))
    parts["projections"].append(partial(model.logits, x))
    parts["ends"] = [ends]
    return parts


def by_turns(parts: Mapping[str, Sequence[Piece]]) -> Iterator[tuple[str, Piece]]:
    """Each kind's first piece, then each one's second, and so on: layer by layer, as the step has them."""
    for number in range(max(map(len, parts.values()))):
        for name, pieces in parts.items():
            if number < len(pieces):
                yield name, pieces[number]
