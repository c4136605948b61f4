"""launchbench: what launching a kernel costs, and what a CUDA graph saves.

One package per step of the flow: ``build`` compiles ``graphs.cu``, ``measure`` times one GPU at one N,
``results`` keeps raw files and says what their columns are, ``aggregate`` joins and summarises them, ``report``
renders. ``config`` says what config.yaml may hold, ``workflow`` tells Snakemake what there is to do, and
``__main__`` is the command line. Imports go from later steps to earlier ones, never back.
"""

__version__ = "0.1.0"
