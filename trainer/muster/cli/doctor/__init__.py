"""`muster doctor`: whether this machine trains as Muster promises, shown by real trainings on it."""
