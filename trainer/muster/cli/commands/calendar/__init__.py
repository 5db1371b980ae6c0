"""Commands about times at which work starts or pauses."""
