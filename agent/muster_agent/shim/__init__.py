"""The process that owns one allocation's process tree: one per allocation, outlives the agent."""
