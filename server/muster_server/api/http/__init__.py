"""What all routes share: who is asking, errors, parameters, the OpenAPI document."""
