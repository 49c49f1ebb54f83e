"""What post-training quantization does to a language model, and what to do about it."""
