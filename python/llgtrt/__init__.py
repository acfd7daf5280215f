"""llgtrt: an OpenAI-compatible inference server for constrained decoding.

Light to import: the engine process starts through this package too, and needs neither the web stack nor
templates.
"""

__version__ = "0.1.0"
