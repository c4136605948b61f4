"""As much of Numba as the adapter calls."""

__version__ = "0.68.1"
