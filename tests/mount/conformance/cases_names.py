"""Names that move and multiply: rename, renameat2, link."""

import os

from .calls import EXCHANGE, NOREPLACE
from .cases_create import DIR_MODES
from .subject import TYPES

TARGETS = TYPES + ("full", "none")
EVERYBODY = ("root", "owner", "member", "other")


def onto(source, target, flags, apart):
    """A thing of one type renamed onto one of another."""

    def case(t):
        os.mkdir("one")
        os.mkdir("two")
        there = "two" if apart else "one"
        t.make(source, "one/source")
        t.make(target, f"{there}/target")
        if target == "file":
            os.link("two/target" if apart else "one/target", "kept")
        call = ("rename",) if flags is None else ("rename2",)
        words = call + ("one/source", f"{there}/target") + (() if flags is None else (flags,))
        t.do("root", *words, watch=("one", "two", "kept"))
        t.show("one/source", f"{there}/target")
        t.do("root", "listdir", "one")
        t.do("root", "listdir", "two")

    return case


def rename_rights(side, mode):
    def case(t):
        t.make("dir", "one", "owner", 0o777)
        t.make("dir", "two", "owner", 0o777)
        for who in EVERYBODY:
            for kind in ("file", "dir"):
                for target in ("none", kind):
                    name = f"{who}{kind}{target}"
                    t.make(kind, f"one/{name}", who)
                    t.make(target, f"two/{name}", who)
                    os.chmod(side, mode)
                    t.do(who, "rename", f"one/{name}", f"two/{name}", watch=("one", "two"))
                    os.chmod(side, 0o777)

    return case


def rename_sticky(side, dir_owner, file_owner):
    def case(t):
        t.make("dir", "one", dir_owner if side == "one" else "root", 0o1777 if side == "one" else 0o777)
        t.make("dir", "two", dir_owner if side == "two" else "root", 0o1777 if side == "two" else 0o777)
        for who in EVERYBODY:
            for kind in ("file", "dir", "link"):
                for target in ("none", kind):
                    name = f"{who}{kind}{target}"
                    t.make(kind, f"one/{name}", file_owner if side == "one" else who, 0o777)
                    t.make(target, f"two/{name}", file_owner, 0o777)
                    t.do(who, "rename", f"one/{name}", f"two/{name}", watch=("one", "two"))
                    t.do(who, "rename2", f"one/{name}", f"two/{name}", EXCHANGE)

    return case


def foreign_directory(t):
    """A directory moves to another parent only with write rights on itself."""
    os.chmod(".", 0o777)
    for mode in (0o777, 0o755, 0o700, 0o555, 0o000):
        for who in EVERYBODY:
            for owner in ("owner", "other"):
                name = f"{who}{owner}{mode:o}"
                t.make("dir", f"a{name}", who)
                t.make("dir", f"b{name}", who)
                t.make("dir", f"a{name}/moved", owner, mode)
                t.do(who, "rename", f"a{name}/moved", f"a{name}/other")
                t.do(who, "rename", f"a{name}/other", f"b{name}/moved", watch=(f"a{name}", f"b{name}"))
                t.do(who, "rename", f"a{name}/moved", f"b{name}/moved")


def rename_self(t):
    """Onto itself, onto another name of the same file, into itself, dots and slashes."""
    t.make("file", "f")
    os.link("f", "g")
    os.makedirs("d/e/f")
    for flags in (0, NOREPLACE, EXCHANGE):
        for old, new in (("f", "f"), ("f", "g"), ("d", "d"), ("d", "d/e"), ("d", "d/e/f/g"), ("d/e", "d"), ("d", "."),
                         ("d", ".."), (".", "d"), ("..", "d"), ("d/.", "x"), ("d/..", "x"), ("f", "d/."), ("f", "x/"),
                         ("f/", "x"), ("d/", "x/"), ("x", "d/"), ("missing", "f"), ("missing", "missing"),
                         ("f", "missing/x"), ("f", "f/x"), ("f/x", "y"), ("f", ""), ("", "f")):
            t.do("root", "rename2", old, new, flags, watch=("f", "g", "d"))
            t.do("root", "listdir", ".")
            if os.path.isdir("x"):
                os.rename("x", "d")
    for flags in (3, 5, 6, 7, 8, 16):
        t.do("root", "rename2", "f", "d", flags)


def exchange_counts(t):
    os.makedirs("one/dir")
    os.makedirs("two/full/inner")
    t.make("file", "two/file")
    t.do("root", "rename2", "one/dir", "two/file", EXCHANGE, watch=("one", "two", "one/dir", "two/file"))
    t.show("one/dir", "two/file")
    t.do("root", "rename2", "two/full", "one/dir", EXCHANGE, watch=("one", "two"))
    t.do("root", "rename2", "two/file", "one", EXCHANGE)
    t.do("root", "rename2", "one", "two", EXCHANGE, watch=("one", "two"))
    t.do("root", "listdir", "one")
    t.do("root", "listdir", "two")


def times(t):
    """The times of the moved and the replaced object after a rename."""
    for kind in TYPES + ("full",):
        t.make(kind, kind)
        t.do("root", "rename", kind, f"{kind}2", watch=(".",))
        before = os.lstat(f"{kind}2")
        t.rest()
        t.do("root", "rename", f"{kind}2", f"{kind}3")
        after = os.lstat(f"{kind}3")
        t.note(f"{kind} moved", (before.st_ctime_ns != after.st_ctime_ns, before.st_mtime_ns != after.st_mtime_ns))


def link_types(kind):
    def case(t):
        os.chmod(".", 0o777)
        t.make(kind, "source")
        for who in ("root", "owner", "other"):
            for call in ("link", "linkfollow"):
                t.do(who, call, "source", f"{call}{who}", watch=("source", "."))
                t.show(f"{call}{who}", "source.target")
        t.do("root", "link", "source", "linkroot", watch=("source",))
        for target in TYPES:
            t.make(target, f"at-{target}")
            t.do("root", "link", "source", f"at-{target}", watch=("source", f"at-{target}", "."))

    return case


def link_rights(mode):
    """Both the directory of the new name and the way to the old one count."""

    def case(t):
        t.make("dir", "one", "owner", 0o777)
        t.make("dir", "two", "owner", 0o777)
        t.make("file", "one/open", "owner", 0o666)
        t.make("file", "one/closed", "owner", 0o600)
        t.make("file", "one/setuid", "owner", 0o4777)
        for who in EVERYBODY:
            for name in ("open", "closed", "setuid"):
                for side in ("one", "two"):
                    os.chmod(side, mode)
                    t.do(who, "link", f"one/{name}", f"two/{who}{name}{side}", watch=("two",))
                    os.chmod(side, 0o777)
                t.show(f"one/{name}")

    return case


def cases():
    for source in TYPES + ("full",):
        for target in TARGETS:
            for flags in (None, NOREPLACE, EXCHANGE):
                for apart in (True, False):
                    word = {None: "plain", NOREPLACE: "noreplace", EXCHANGE: "exchange"}[flags]
                    yield f"rename/{word}/{source}/{target}/{'apart' if apart else 'beside'}", \
                        onto(source, target, flags, apart)
    for side in ("one", "two"):
        for mode in DIR_MODES:
            yield f"rename/rights/{side}/{mode:04o}", rename_rights(side, mode)
        for dir_owner in ("root", "owner", "other"):
            for file_owner in ("owner", "other", "nobody"):
                yield f"rename/sticky/{side}/{dir_owner}/{file_owner}", rename_sticky(side, dir_owner, file_owner)
    yield "rename/foreign", foreign_directory
    yield "rename/self", rename_self
    yield "rename/counts", exchange_counts
    yield "rename/times", times
    for kind in TYPES + ("full",):
        yield f"link/type/{kind}", link_types(kind)
    for mode in DIR_MODES:
        yield f"link/rights/{mode:04o}", link_rights(mode)
