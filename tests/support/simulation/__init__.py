"""A whole cluster in one process under a virtual clock, and thousands of its possible histories.

What runs is the product: the controller with its loops and lease, the services behind every route
of agents and people over a real (SQLite) database, and the agent's own loop, planner, uploader and
spool. What is simulated is the world around it: time, the network, computers that crash and
reboot, processes that train, people. `scenario` draws from a seed what will go wrong, `world` lets
it happen, `invariants` and `witness` say whether a promise was broken. One seed is one history,
always the same one:

    python -m support.simulation --seed 17 --trace
"""
