"""The machine itself: what it has, how it is, how it joins."""
