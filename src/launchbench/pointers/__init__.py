"""Exercise 4: pointers baked into a graph. Scenarios, the sanitizer's view of them, and the cures.

Each scenario is a process of its own, since one of them loses its context. What the processes print is read by
``lines`` and judged by ``outcome``, the same for cuda-python and for the stand-alone program.
"""
