"""The container engine of this node: finding it, pulling images, and ending containers."""
