"""Quantizers: a weight matrix in, the dequantized matrix and an itemised bit ledger out."""
