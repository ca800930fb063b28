"""Run the application until a signal."""

import asyncio
import socket
from types import FrameType

import uvicorn

from albert_tf.serving.server import gate


class Server(uvicorn.Server):
    """Answers what has begun before it ends; its exit status is then 0."""

    # After a signal connections are still taken for so long. With its answer
    # each client learns that its own ends, and sends nothing more over it. Over
    # those that were taken last requests may come for as long again.
    farewell_seconds = 0.5

    def __init__(self, app: gate.Gate) -> None:
        self._app = app
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            # Longer than proxies keep a connection that is idle.
            timeout_keep_alive=75,
            timeout_graceful_shutdown=60,
        )
        super().__init__(config)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Remember a signal; after a second one nothing is waited for."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(
        self, sockets: list[socket.socket] | None = None
    ) -> None:
        self._app.is_ending = True
        if not self.force_exit:
            await asyncio.sleep(self.farewell_seconds)
            for server in self.servers:
                server.close()
            await asyncio.sleep(self.farewell_seconds)
        await super().shutdown(sockets)
