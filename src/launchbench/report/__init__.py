"""Render the tables into one page and its figures."""
