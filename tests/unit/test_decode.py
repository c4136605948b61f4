"""The decode step: what needs no card. The model itself is tested where PyTorch is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_importing_it_needs_no_pytorch() -> None:
    code = "import sys; sys.modules['torch'] = None; import launchbench.decode_step"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == ""


def test_running_it_where_it_cannot_run_is_one_line() -> None:
    code = "import importlib.util as u; u.find_spec = lambda name: None; "
    code += "from launchbench.decode_step import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == ("launchbench: the decode step is not run: PyTorch is not installed (pip install torch)\n")


class TestModel:
    """On the CPU, where the same code runs eagerly."""

    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        pytest.importorskip("torch", reason="needs PyTorch")

    def test_the_cache_says_what_the_whole_sequence_says(self) -> None:
        import torch

        from launchbench.decode.model import Decoder, Shape

        shape = Shape(layers=2, width=32, heads=4, context=8, vocabulary=16)
        tokens = torch.tensor([[3], [5], [7], [1]])
        with torch.no_grad():
            model = Decoder(shape, seed=1).eval()
            stepped = torch.cat([model.step(token[None]) for token in tokens], dim=1)
            x = model.token(tokens.T) + model.place(torch.arange(4))
            hidden = torch.full((4, 4), float("-inf")).triu(1)
            for layer in model.layers:
                q, k, v = layer.query_key_value(layer.before_attention(x)).view(1, 4, 3, 4, 8).permute(2, 0, 3, 1, 4)
                seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=hidden)
                x = x + layer.out(seen.transpose(1, 2).reshape(1, 4, 32))
                x = x + layer.down(torch.nn.functional.gelu(layer.up(layer.before_mlp(x))))
            whole = model.logits(model.last(x))
        assert torch.allclose(stepped, whole, atol=1e-5)

    def test_a_restart_forgets_what_the_cache_holds(self) -> None:
        import torch

        from launchbench.decode.model import Decoder, Shape

        shape = Shape(layers=1, width=16, heads=2, context=4, vocabulary=8)
        with torch.no_grad():
            fresh, used = (Decoder(shape, seed=2).eval() for _ in range(2))
            for _ in range(9):  # beyond the end of the cache
                used.step(torch.tensor([[6]]))
            assert int(used.position) == 3
            used.restart()
            assert torch.equal(used.step(torch.tensor([[1]])), fresh.step(torch.tensor([[1]])))

    def test_the_parts_are_all_operations_of_a_step(self) -> None:
        """Each that a kernel may run, as often: what is predicted from them would miss some otherwise."""
        from collections import Counter
        from typing import Any

        import torch
        from torch.utils._python_dispatch import TorchDispatchMode

        from launchbench.decode.model import Decoder, Shape
        from launchbench.decode.parts import by_turns, parts_of

        views = ("view", "permute", "transpose", "unbind", "_unsafe_view", "expand", "detach", "slice", "select")

        class Counting(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                name = func.overloadpacket.__name__
                if name not in (*views, "reshape", "_reshape_alias", "t", "unsqueeze", "squeeze"):
                    seen[name] += 1
                return func(*args, **(kwargs or {}))

        model = Decoder(Shape(layers=3, width=32, heads=4, context=8, vocabulary=16, batch=2), seed=3).eval()
        counts = []
        parts = parts_of(model)
        with torch.no_grad():
            for works in (
                [lambda: model.step(torch.zeros(2, 1, dtype=torch.long))],
                [piece for _, piece in by_turns(parts)],
            ):
                seen: Counter[str] = Counter()
                with Counting():
                    for work in works:
                        work()
                seen.pop("zeros", None)
                counts.append(seen)
        assert counts[0] == counts[1] and counts[0]["addmm"] == 4 * 3 + 1
