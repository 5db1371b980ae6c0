"""What a training will take before it is launched: memory of a slot, bytes on the network, time.

The layers of the model come from the model itself (`muster.wire.LayerTable`); `memory` and `traffic`
say what a strategy makes of them, `choice` which strategy to take.
"""
