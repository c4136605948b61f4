"""Exercise 6: the decode step of a small transformer, eager and as a graph. Needs PyTorch, an extra."""

from __future__ import annotations

import importlib.metadata
import importlib.util


def unable() -> str:
    """Why no decode step can be run here; empty if it can."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed (pip install torch)"
    try:
        import torch
    except Exception as error:  # a library is missing, or a release beside it does not fit: any error may come of it
        return f"PyTorch cannot be loaded: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} sees no CUDA device"
    return ""


def installed() -> str:
    """Version of the installed PyTorch, ``none`` without; imports nothing: the Snakefile asks."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "none"
