"""Plain ASGI layers around the routes; one concern per file. app.py says their order."""
