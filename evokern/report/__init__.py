"""What people are shown: tables of a run and of an evaluation, and the display while a run is on.

Everything here takes plain JSON values, the same that `--json` prints, so that a table never knows more than the document.
`tables` makes text and needs nothing; `display` follows a run, with rich on a terminal and one line an event elsewhere; `status` reads
a run's standing figures from its journal. `words` says what a verdict means for whoever wrote the kernel, `standing` whether an
evaluation counts, `audit` what somebody should look at. All text goes out through `evokern.printable`.
"""
