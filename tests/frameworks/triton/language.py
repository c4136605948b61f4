"""Names that the kernels of the adapter use."""
