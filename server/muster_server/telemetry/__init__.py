"""What the processes of the control plane tell Prometheus about themselves and the cluster."""
