"""Random changes of one directory tree, made one after another on any of several mounts, and the state that the tree
must have after each."""

import os
import random

NAMES = [f"name{number}" for number in range(12)]
ATTRIBUTES = [f"user.a{number}" for number in range(3)]
DEPTH, DIRECTORIES = 3, 12  # at most

FILE, LINK, DIRECTORY = "file", "link", "directory"


class Node:
    """A file with all its names, a symbolic link or a directory."""

    def __init__(self, kind, data=b"", mode=0o755):
        self.kind = kind
        self.data = data  # the content; of a link the target
        self.mode = mode  # not of a link
        self.attributes = {}  # extended attributes


def write(path, data, flags):
    descriptor = os.open(path, flags, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


class KnownTree:
    """`nodes` has the paths below the top and what they are. change() makes a change and records it."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.nodes = {"": Node(DIRECTORY)}
        self.top = None  # the mount that changes
        self.kinds = {self.create: 4, self.symlink: 2, self.link: 2, self.mkdir: 2, self.unlink: 5, self.rmdir: 2,
                      self.rename: 4, self.replace: 3, self.move_directory: 1, self.chmod: 2, self.truncate: 2,
                      self.append: 2, self.set_attribute: 2, self.drop_attribute: 1}

    def change(self, top):
        """Makes one change on the mount `top`. Returns its name, and the paths whose state may have changed."""
        self.top = top
        while True:
            kind, = self.random.choices(list(self.kinds), self.kinds.values())
            if paths := kind():
                return kind.__name__, list(dict.fromkeys(paths))

    def names_in(self, directory):
        return sorted(os.path.basename(path) for path in self.nodes if path and os.path.dirname(path) == directory)

    def names_of(self, node):
        return [path for path, other in self.nodes.items() if other is node]

    def links(self, node):
        """The right st_nlink; of a directory it may also be 1."""
        if node.kind != DIRECTORY:
            return len(self.names_of(node))
        at = self.names_of(node)[0]
        return 2 + sum(1 for path, inner in self.nodes.items()
                       if path and inner.kind == DIRECTORY and os.path.dirname(path) == at)

    def any_path(self):
        """A path that may exist or not."""
        return os.path.join(self.some(DIRECTORY), self.random.choice(NAMES))

    def some(self, *kinds):
        """A path that exists, None if there is none. The top is the only empty one."""
        paths = sorted(path for path, node in self.nodes.items() if node.kind in kinds)
        return self.random.choice(paths) if paths else None

    def free(self):
        for _ in range(20):
            if (path := self.any_path()) not in self.nodes:
                return path
        return None

    # Each makes a change and returns the paths that it concerns, None if it is not possible now.

    def create(self):
        if (path := self.free()) is None:
            return None
        self.nodes[path] = Node(FILE, b"new " + path.encode(), 0o644)
        write(self.top / path, self.nodes[path].data, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        return [path]

    def symlink(self):
        if (path := self.free()) is None:
            return None
        self.nodes[path] = Node(LINK, b"to %d" % self.random.randrange(100))
        os.symlink(self.nodes[path].data, os.fsencode(self.top / path))
        return [path]

    def link(self):
        old, new = self.some(FILE), self.free()
        if old is None or new is None:
            return None
        os.link(self.top / old, self.top / new)
        self.nodes[new] = self.nodes[old]
        return self.names_of(self.nodes[new])

    def mkdir(self):
        path = self.free()
        if path is None or path.count("/") >= DEPTH or self.full():
            return None
        os.mkdir(self.top / path, 0o755)
        self.nodes[path] = Node(DIRECTORY)
        return [path, os.path.dirname(path)]

    def full(self):
        return sum(node.kind == DIRECTORY for node in self.nodes.values()) > DIRECTORIES

    def unlink(self):
        if (path := self.some(FILE, LINK)) is None:
            return None
        os.unlink(self.top / path)
        return [path, *self.names_of(self.nodes.pop(path))]

    def rmdir(self):
        path = self.some(DIRECTORY)
        if not path or self.names_in(path):
            return None
        os.rmdir(self.top / path)
        del self.nodes[path]
        return [path, os.path.dirname(path)]

    def rename(self):
        old, new = self.some(FILE, LINK), self.free()
        if old is None or new is None:
            return None
        os.rename(self.top / old, self.top / new)
        self.nodes[new] = self.nodes.pop(old)
        return [old, *self.names_of(self.nodes[new])]

    def replace(self):
        old, new = self.some(FILE, LINK), self.some(FILE, LINK)
        if old is None or self.nodes[old] is self.nodes[new]:
            return None
        os.rename(self.top / old, self.top / new)
        replaced, self.nodes[new] = self.nodes[new], self.nodes.pop(old)
        return [old, *self.names_of(self.nodes[new]), *self.names_of(replaced)]

    def move_directory(self):
        old, new = self.some(DIRECTORY), self.free()
        if not old or new is None or f"{new}/".startswith(f"{old}/"):
            return None
        inner = [path for path in self.nodes if path.startswith(f"{old}/")]
        if max(path.count("/") - old.count("/") for path in [old, *inner]) + new.count("/") > DEPTH:
            return None
        os.rename(self.top / old, self.top / new)
        for path in [old, *inner]:
            self.nodes[new + path[len(old):]] = self.nodes.pop(path)
        moved = self.random.sample(inner, min(3, len(inner)))
        return [old, new, *moved, *(new + path[len(old):] for path in moved)]

    def chmod(self):
        path = self.some(FILE, DIRECTORY)
        if not path:
            return None
        node = self.nodes[path]
        node.mode = self.random.choice((0o700, 0o750, 0o755, 0o711) if node.kind == DIRECTORY else
                                       (0o600, 0o640, 0o644, 0o755))
        os.chmod(self.top / path, node.mode)
        return self.names_of(node)

    def truncate(self):
        if (path := self.some(FILE)) is None:
            return None
        node, size = self.nodes[path], self.random.randrange(40)
        os.truncate(self.top / path, size)
        node.data = node.data[:size].ljust(size, b"\0")
        return self.names_of(node)

    def append(self):
        if (path := self.some(FILE)) is None:
            return None
        node, data = self.nodes[path], b"+%d" % self.random.randrange(100)
        write(self.top / path, data, os.O_WRONLY | os.O_APPEND)
        node.data += data
        return self.names_of(node)

    def set_attribute(self):
        path = self.some(FILE, DIRECTORY)
        if not path:
            return None
        node, name = self.nodes[path], self.random.choice(ATTRIBUTES)
        node.attributes[name] = b"%d" % self.random.randrange(1000)
        os.setxattr(self.top / path, name, node.attributes[name])
        return self.names_of(node)

    def drop_attribute(self):
        path = self.some(FILE, DIRECTORY)
        if not path or not self.nodes[path].attributes:
            return None
        node = self.nodes[path]
        name = self.random.choice(sorted(node.attributes))
        os.removexattr(self.top / path, name)
        del node.attributes[name]
        return self.names_of(node)
