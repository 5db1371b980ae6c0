"""Routes; see docs/reference/rest-api.md."""

from fastapi import APIRouter

router = APIRouter()
