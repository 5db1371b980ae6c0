"""Metrics of the control plane's processes and the cluster, for Prometheus."""
