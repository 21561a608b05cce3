"""Export: the formats of others. `suites` reads their tasks; views of the journal come with later work."""
