"""A report of results: from the JSON of `agentix bench`, `ab` and `simulate` to one page that opens anywhere.

`model` is what runs of all three have in common, `read` and `*_runs` make it from files, `ratios` compares, `charts` says what
is drawn, `draw` draws it (the only module that needs matplotlib), `page` puts it into HTML, `write` writes the files.
"""
