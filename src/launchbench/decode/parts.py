"""The operations of a decode step by kind: each kind on its own, for all layers, in the shapes of the step.

What a step costs is predicted from these. They read the model's own parameters and cache, layer after layer, so that
a weight is no more likely in the card's cache than in the step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from launchbench.decode.model import Decoder

Part = Callable[[], None]


def parts_of(model: Decoder) -> dict[str, Part]:
    """Name of the kind -> what issues all its operations, as often as one step does.

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

    def norms() -> None:
        for layer in model.layers:
            layer.before_attention(x)
            layer.before_mlp(x)
        model.last(x)

    def projections() -> None:
        for layer in model.layers:
            layer.query_key_value(x)
            layer.out(x)
            layer.up(x)
            layer.down(wide)
        model.logits(x)

    def cache() -> None:
        for layer in model.layers:
            layer.keys.index_copy_(2, model.position, key)
            layer.values.index_copy_(2, model.position, value)

    def attention() -> None:
        for layer in model.layers:
            _ = query @ layer.keys.transpose(-1, -2)
            _ = scores @ layer.values

    def elementwise() -> None:
        for _ in model.layers:
            _ = (scores * head_width**-0.5) + scores
            scores.softmax(-1)
            _ = x + x
            functional.gelu(wide)
            _ = x + x

    def ends() -> None:
        _ = model.token(token) + model.place(model.position)
        torch.where(model.places > model.position, float("-inf"), 0.0)
        model.position.add_(1).clamp_(max=shape.context - 1)

    def views() -> None:
        for layer in model.layers:
            each = split.view(shape.batch, 1, 3, layer.heads, head_width)
            first, _, _ = each.permute(2, 0, 3, 1, 4)
            first.transpose(1, 2).reshape(shape.batch, 1, shape.width)
            layer.keys.transpose(-1, -2)
            around(x)  # a layer is a module around its operations

    return {
        "norms": norms,
        "projections": projections,
        "cache": cache,
        "attention": attention,
        "elementwise": elementwise,
        "ends": ends,
        "views": views,
    }
