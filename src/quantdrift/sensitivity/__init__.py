"""How much a model suffers from what quantization does to one matrix."""
