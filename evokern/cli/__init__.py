"""The command line: argv to settings, settings to the engine, answers to one document or one table.

`main` is the console script. Nothing heavy is imported before the command that uses it runs, so that `--help` answers at once.
Exit codes: 0 done; 1 what was asked did not hold; 2 wrong usage or configuration; 3 something needed is not here; 130
interrupted, state saved. With `--json`, standard output holds one document with a `schema` field, errors too; everything
else goes to standard error.
"""

from evokern.cli.app import main

__all__ = ["main"]
