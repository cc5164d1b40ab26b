"""`make stop`: pauses a deployed stack and stops its EMR Serverless application, which then takes a change."""
