"""Short idempotent jobs in Celery, each re-derivable from the database."""
