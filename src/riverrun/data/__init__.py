"""Examples as batches: padding, order, corpora larger than memory. numpy alone; nothing here needs torch."""
