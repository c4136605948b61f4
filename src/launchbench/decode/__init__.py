"""Exercise 6: the decode step of a small transformer, eager and as a graph. Needs PyTorch, an extra."""

from __future__ import annotations

import importlib.util


def unable() -> str:
    """Why no decode step can be run here; empty if it can."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed (pip install torch)"
    import torch

    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no CUDA device"
    return ""
