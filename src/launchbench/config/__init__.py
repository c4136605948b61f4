"""What config.yaml may say, and one readable line for each mistake. Light to import."""
