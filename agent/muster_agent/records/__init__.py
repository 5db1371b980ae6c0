"""Numbered records and log bytes: kept on disk until the server has them."""
