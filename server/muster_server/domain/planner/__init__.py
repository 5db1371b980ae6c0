"""What a training will take before it is launched: memory of a slot, bytes on the network, time.

`models` describes the built-in models without torch, `memory` and `traffic` what a strategy makes of
them, `choice` which strategy to take.
"""
