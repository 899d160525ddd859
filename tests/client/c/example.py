#!/usr/bin/python3
"""An example of libdafs in Python: copies a file within an export, eight blocks at a time, by asyncio and RDMA.

    example.py SERVER[:PORT] EXPORT FROM TO
"""
import asyncio
import sys

import dafs

BLOCK = 256 << 10


async def copy_blocks(group, source, target, memory, blocks):
    """Copies the blocks with the numbers in `blocks`, through one piece of registered memory."""
    for block in blocks:  # the workers share the iterator
        count = await group.readinto(source, memory, block * BLOCK)
        await group.write(target, memory, block * BLOCK, count)


async def copy(session, source, target):
    """Copies all of `source`. Eight workers keep eight requests under way."""
    blocks = iter(range((source.stat().size + BLOCK - 1) // BLOCK))
    with session.group() as group:
        memories = [session.register(bytearray(BLOCK)) for _ in range(8)]
        await asyncio.gather(*(copy_blocks(group, source, target, memory, blocks) for memory in memories))
        for memory in memories:
            memory.close()
    target.commit()


def main(server, export, source_path, target_path):
    """Opens both files and runs the copy. Errors name the server, the export, the call and the file."""
    try:
        with dafs.Session(server, export) as session, session.open(source_path) as source:
            with session.open(target_path, write=True, create=True, truncate=True) as target:
                asyncio.run(copy(session, source, target))
    except dafs.Error as error:
        sys.exit(error.strerror)


if __name__ == "__main__":
    main(*sys.argv[1:])
