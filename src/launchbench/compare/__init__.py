"""Two sets of results against each other: ``launchbench compare``."""
