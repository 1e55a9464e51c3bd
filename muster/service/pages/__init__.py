"""The live page of the daemon: what the API answers, as pages for people."""

from muster.service.pages.routes import add_pages

__all__ = ["add_pages"]
