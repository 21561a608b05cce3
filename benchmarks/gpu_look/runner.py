"""A runner as a device contract needs it: imports windows by descriptor and answers GO with DONE, by socket or by mailbox.

Started as `runner.py FD SETTINGS KERNELS`: a socket of sequenced packets, a slot's settings in JSON, a folder with kernels.cubin.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import sys
from typing import Any

import slot
from driver import Driver, DriverError, packed

GO = struct.Struct("<cIIQI")  # b"G", sequence, calls, nanoseconds of each, mode
DONE = struct.Struct("<cI")
NULL, HONEST, EARLY, BEFORE = range(4)
"""Answer at once; synchronise and answer; answer after the launch; answer before it."""
MAIL = struct.Struct("<IIQI")  # what lies behind the mailbox's sequence word
WORD = struct.Struct("<I")
DONE_AT = 64
QUIT = 0xFFFFFFFF


class Runner:
    """Windows and kernels of one runner."""

    def __init__(self, folder: str) -> None:
        self.driver = Driver()
        with open(os.path.join(folder, "kernels.cubin"), "rb") as file:
            self.module = self.driver.module(file.read())
        self.spin = self.driver.function_of(self.module, "spin")
        self.windows: list[int] = []
        self.sizes: list[int] = []
        self.boxes: list[mmap.mmap] = []

    def launch(self, calls: int, nanoseconds: int, sequence: int, blocks: int = 1) -> None:
        """One kernel of known duration in each of the first `calls` windows."""
        for window in self.windows[:calls]:
            self.driver.launch(self.spin, [blocks], [32], packed("QQI", nanoseconds, window, sequence))

    def answer(self, calls: int, nanoseconds: int, sequence: int, mode: int) -> None:
        """What is done between GO and DONE."""
        if mode in {HONEST, EARLY}:
            self.launch(calls, nanoseconds, sequence)
        if mode == HONEST:
            self.driver.synchronise()

    def serve(self, channel: socket.socket) -> None:
        """Until the judge hangs up."""
        while True:
            message, descriptors, _, _ = socket.recv_fds(channel, 65536, 80)
            if not message:
                return
            if message[:1] == b"G":
                _, sequence, calls, nanoseconds, mode = GO.unpack(message)
                self.answer(calls, nanoseconds, sequence, mode)
                channel.send(DONE.pack(b"D", sequence))
                if mode == BEFORE:
                    self.launch(calls, nanoseconds, sequence)
            else:
                channel.send(json.dumps(self.try_to_obey(json.loads(message), descriptors)).encode())

    def try_to_obey(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Obey, or say why not."""
        try:
            return self.obey(order, descriptors)
        except DriverError as error:
            return {"error": str(error)}

    def obey(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Orders outside the clock."""
        if order["op"] == "import":
            for descriptor in descriptors:
                self.windows.append(self.driver.map_exported(descriptor, order["size"]))
                os.close(descriptor)
        elif order["op"] == "write":  # a word by a kernel into a place of the first window
            self.driver.launch(self.spin, [1], [1], packed("QQI", 0, self.windows[0] + order["at"], order["word"]))
            self.driver.synchronise()
        elif order["op"] == "spin":
            self.launch(1, order["ns"], 7, order["blocks"])
        elif order["op"] == "neighbour":
            block = self.driver.open_ipc(bytes.fromhex(order["handle"]))
            mine = self.driver.allocate(
                order["size"]
            )  # by a kernel: the driver checks the ranges of copies, nothing checks those of kernels
            copy = self.driver.function_of(self.module, "copy4")
            self.driver.launch(copy, [1], [32], packed("QQq", block + order["at"], mine, order["size"] // 16))
            return {"data": self.driver.read(mine, order["size"]).hex()}
        elif order["op"] == "mailbox":
            self.poll(mmap.mmap(descriptors[0], mmap.PAGESIZE))
        return {"ok": True, "pid": os.getpid(), "uid": os.getuid()}

    def poll(self, box: mmap.mmap) -> None:
        """Answer by mailbox: a sequence word, the order behind it, and a word for DONE a cache line further."""
        last = 0
        while True:
            (sequence,) = WORD.unpack_from(box, 0)
            if sequence == last:
                continue
            if sequence == QUIT:
                return
            _, calls, nanoseconds, mode = MAIL.unpack_from(box, 4)
            self.answer(calls, nanoseconds, sequence, mode)
            WORD.pack_into(box, DONE_AT, sequence)
            last = sequence


def main() -> None:
    """Enter the slot, then load CUDA, then serve."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    held = json.loads(sys.argv[2])
    settings = slot.Settings(**{name: tuple(value) if isinstance(value, list) else value for name, value in held.items()})
    try:
        slot.enter(settings)
        slot.confine(settings, channel)
        runner = Runner(sys.argv[3])
    except Exception as error:
        channel.send(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}).encode())
        return
    channel.send(b"{}")
    runner.serve(channel)


if __name__ == "__main__":
    main()
