"""The only room that touches result files."""
