"""The steps. A step that was released is never changed; the next one follows it."""
