"""Figures, tables and the page that people read."""
