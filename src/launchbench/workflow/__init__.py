"""What the Snakefile asks of the package. Light to import: every job parses the Snakefile."""
