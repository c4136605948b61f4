"""launchbench: what launching a kernel costs, and what a CUDA graph saves.

The flow is one module per step: ``toolkit`` and ``build`` compile ``graphs.cu``; ``cards``, ``nvml``
and ``host`` say what is measured on; ``native``, ``measure`` and ``job`` measure one GPU at one N;
``results`` keeps and reads raw files; ``aggregate`` joins and summarises them; ``figures`` and
``report`` render. ``plan`` tells Snakemake which cells there are, ``__main__`` is the command line.
"""

__version__ = "0.1.0"
