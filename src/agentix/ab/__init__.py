"""A/B runs: the same programs on a real engine under several ways of scheduling them, interleaved and repeated.

`arms` says what is compared, `config` which runs that makes, `mix` which programs they replay, `measure` does one run,
`run` all of them; `store` keeps the results, `compare` and `report` sum them up, `display` shows them. Importing this package
loads none of it: a run needs the extras `gateway` and `bench`.
"""
