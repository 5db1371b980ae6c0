"""Configurations of other tools as experiment documents. Pure: nothing is read or sent here."""
