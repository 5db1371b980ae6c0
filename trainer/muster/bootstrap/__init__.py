"""An agent on a machine that people reach with ssh: installed, upgraded and removed from elsewhere.

`machine` says what is on it and what of that is in the way, and `programs` what is run there; both are
pure. `wheel` packs this installation, and `steps` does it all.
"""
