"""All of Muster on one machine: what `muster up` starts, watches and stops.

    home.py        the folder everything is kept in, its lock, what can be wrong with it
    parts.py       the processes: command line, environment, when they count as started
    prepare.py     a short process that migrates the database and makes the first tokens
    guard.py       lets a foreign program (Valkey) end with us, however we end
    supervisor.py  starts, restarts and stops them
    processes.py   finds what runs, and what was left behind

Nothing of the server proper is imported in the supervising process: it stays small. On Linux the parts
are forked from a process that has imported all of it once (muster.launch.forkserver).
"""
