"""What would other settings do for these programs? A trace, played in the simulator under every policy and balancer there is.

`config` is the question, `variants` the same programs on other days, `play` simulates, `choose` decides what is worth
proposing, `run` goes from one to the other, `document` and `display` say it.
"""
