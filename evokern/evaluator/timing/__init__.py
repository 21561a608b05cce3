"""How long a kernel takes: the judge's clock, pairs, when to stop, and what no device can do."""
