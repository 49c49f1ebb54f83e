"""What a model does: agreement of its attention, and later its answers and its perplexity."""
