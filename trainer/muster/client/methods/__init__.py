"""The methods of `Client`, by what they are about."""
