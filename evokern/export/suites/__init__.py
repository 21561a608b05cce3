"""Task suites that others publish, read where a user has them; nothing of them is kept here."""
