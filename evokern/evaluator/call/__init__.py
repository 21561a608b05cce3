"""One runner and one call: shared memory, records, inputs in, verified outputs out."""
