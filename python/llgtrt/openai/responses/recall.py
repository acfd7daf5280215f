"""What a request takes from stored responses."""

from __future__ import annotations

from typing import Any

import msgspec

from llgtrt.openai.errors import ApiError, invalid
from llgtrt.openai.responses.store import UNDER_WAY, Store, TooLargeError

Json = dict[str, Any]


class Recall:
    """Kept items for one request, no more of them than it could send itself.

    A body of a few bytes would otherwise make a conversation of any length: an item may be referred to again
    and again, and a response goes on from as many as are kept.
    """

    def __init__(self, store: Store, client: int, most: int) -> None:
        """`client`: a number for its API key; `most`: bytes, `server.max_body_bytes`."""
        self._store = store
        self._client = client
        self._most = self._left = most
        self._known: dict[str, Json] = {}

    def item(self, name: str) -> Json | None:
        """An item of the input or output of one of this client's responses.

        Raises:
            ApiError: all that is recalled is too much.
        """
        if name in self._known:
            size = len(msgspec.json.encode(self._known[name]))
        else:
            kept = self._store.holding(self._client, name)
            if kept is None:
                return None
            size = kept.size
            self._known |= {item["id"]: item for item in (*kept.input, *kept.body["output"])}
        if size > self._left:
            raise self._too_large("input")
        self._left -= size
        return self._known[name]

    def before(self, name: str | None) -> list[tuple[Json, str]]:
        """The items of a response and of those before it, each with its place.

        Raises:
            ApiError: one is not kept or not at its end, or all that is recalled is too much.
        """
        at = "previous_response_id"
        if name is None:
            return []
        try:
            chain = self._store.chain(self._client, name, self._left)
        except TooLargeError as e:
            raise self._too_large(at) from e
        if chain is None:
            message = (
                f"{at}: {name:.128}, or a response that it goes on from, is not kept; "
                "send the conversation as input"
            )
            raise ApiError(message, at, "previous_response_not_found")
        for kept in chain:
            if kept.body["status"] in UNDER_WAY:
                raise invalid(at, f"{at}: {kept.body['id']} is still {kept.body['status']}; wait for its end")
        self._left -= sum(kept.size for kept in chain)
        return [(item, at) for kept in chain for item in (*kept.input, *kept.body["output"])]

    def _too_large(self, at: str) -> ApiError:
        message = (
            f"{at}: brings back more than {self._most} bytes (server.max_body_bytes); "
            "send what is needed of it as input"
        )
        return invalid(at, message, "context_length_exceeded")
