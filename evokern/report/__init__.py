"""What people are shown: tables of a run and of an evaluation, and the display while a run is on.

Everything here takes plain JSON values, the same that `--json` prints, so that a table never knows more than the document.
`tables` makes text and needs nothing; `display` follows a run, with rich on a terminal and one line an event elsewhere.
"""
