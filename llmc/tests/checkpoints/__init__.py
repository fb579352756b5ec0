"""Files of models and runs in every format: whole, damaged, interrupted."""
