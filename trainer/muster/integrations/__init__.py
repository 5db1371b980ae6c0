"""Classes that hand the values of a library to Muster, for scripts that name their loggers.

A job does not need them: what these libraries log is captured there without a changed line (see
`muster.capture`). They serve where that is switched off or where a script is to say whom it reports
to. Used together with capturing, each value is still reported once.
"""
