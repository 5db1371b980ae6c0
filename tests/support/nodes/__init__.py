"""What tests put in the place of nodes, devices and registries."""
