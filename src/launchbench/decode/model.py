"""A small transformer decoder whose step runs about as many kernels a token as the exercise sheet counts.

Static KV cache, position on the card: nothing of a step depends on the host, so it can be captured.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Size of the model and of the step.

    Attributes:
        layers: blocks of attention and MLP.
        width: of the residual stream.
        heads: attention heads; divides ``width``.
        context: tokens that the KV cache has room for.
        vocabulary: size of the logits.
        batch: sequences that are decoded together.
    """

    layers: int = 28
    width: int = 512
    heads: int = 8
    context: int = 256
    vocabulary: int = 1024
    batch: int = 1


class Layer(nn.Module):
    """Attention over the cache, then the MLP, each behind a norm and added to what came in."""

    keys: Tensor
    values: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.before_attention = nn.LayerNorm(shape.width)
        self.query_key_value = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.before_mlp = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)
        room = (shape.batch, shape.heads, shape.context, shape.width // shape.heads)
        self.register_buffer("keys", torch.zeros(room))
        self.register_buffer("values", torch.zeros(room))

    def forward(self, x: Tensor, position: Tensor, unseen: Tensor) -> Tensor:
        """``x`` (batch, 1, width) with what the sequence so far says; ``unseen`` is -inf where nothing is cached."""
        batch, _, width = x.shape
        split = self.query_key_value(self.before_attention(x)).view(batch, 1, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        # In place, at a position that a tensor holds: a slice by a Python number would be baked in.
        self.keys.index_copy_(2, position, key)
        self.values.index_copy_(2, position, value)
        scores = query @ self.keys.transpose(-1, -2) * (width // self.heads) ** -0.5
        seen = (scores + unseen).softmax(-1) @ self.values
        x = x + self.out(seen.transpose(1, 2).reshape(batch, 1, width))
        return x + self.down(functional.gelu(self.up(self.before_mlp(x))))


class Decoder(nn.Module):
    """Embedding, layers, logits, with random weights of a seed; ``step`` decodes one token of each sequence."""

    position: Tensor
    places: Tensor

    def __init__(self, shape: Shape, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.shape = shape
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.place = nn.Embedding(shape.context, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.last = nn.LayerNorm(shape.width)
        self.logits = nn.Linear(shape.width, shape.vocabulary)
        self.register_buffer("position", torch.zeros(1, dtype=torch.long))
        self.register_buffer("places", torch.arange(shape.context))

    def restart(self) -> None:
        """Begin a new sequence; the cache keeps its addresses, and what it holds is no longer seen."""
        self.position.zero_()

    def step(self, token: Tensor) -> Tensor:
        """Logits (batch, 1, vocabulary) after a token (batch, 1) at the current position, which moves on."""
        x = self.token(token) + self.place(self.position)
        unseen = torch.where(self.places > self.position, float("-inf"), 0.0)
        for layer in self.layers:
            x = layer(x, self.position, unseen)
        # Not past the end of the cache: a replay has nobody who could look.
        self.position.add_(1).clamp_(max=self.shape.context - 1)
        result: Tensor = self.logits(self.last(x))
        return result
