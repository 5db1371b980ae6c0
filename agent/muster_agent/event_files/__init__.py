"""TensorBoard's event files, read without TensorFlow and while they are written.

`records` finds whole records in bytes, `events` decodes what they hold, and `follow` finds the files of
a work folder and reads what is new of them.
"""
