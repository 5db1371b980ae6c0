"""What a distributed step costs: a model of communication and computing, fitted to measurements.

`collectives` says how often a message starts and how many bytes a link carries, by kind and size of
the group. `fitting` finds latency and bandwidth from measured transfers, and the time of a step from
measured steps. `prediction` says what the step should take elsewhere, with an interval.
"""
