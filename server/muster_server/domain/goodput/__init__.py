"""Where slot-seconds go: the ledger of an attempt, what a run lost, and what would have saved it."""
