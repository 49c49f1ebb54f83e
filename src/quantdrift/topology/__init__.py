"""Persistence diagrams of weight matrices (H0) and the distances between them."""
