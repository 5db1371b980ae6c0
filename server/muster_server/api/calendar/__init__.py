"""Routes of times at which work starts or pauses."""
