"""The tables for other tools and other people: ``launchbench export``."""
