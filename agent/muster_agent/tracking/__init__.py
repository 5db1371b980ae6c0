"""MLflow's tracking API for the scripts of one allocation, on the loopback interface."""
