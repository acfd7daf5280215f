"""Replicas of the server over one or more machines: a deployment of Ray Serve. Needs `llgtrt[ray]`."""
