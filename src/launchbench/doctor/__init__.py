"""``launchbench doctor``: what will work on this machine or in this SLURM job, and what to do about the rest."""
