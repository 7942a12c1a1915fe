"""What a node was doing, for gdb: on a core file or a running process.

    gdb -x tools/gdb/fnd.py build/fnd CORE
    gdb -x tools/gdb/fnd.py -p PID

    fnd-calls          calls of the load balancer and of the runner: state, age, where
    fnd-containers     containers: state, age, call, what the engine does with them
    fnd-queues         who waits for what: slot queues, groups, lanes, tasks and timers
    fnd-arena EXPR     chunks of a struct arena, how full they are

Every command shows at most LINES_MAX rows of a kind. Values of struct lb_call, rcall, container,
slot_queue, place_group, arena and buf are printed in one line; `print/r` shows all of their fields.
Nothing in the process is called or changed, so that a core file will do."""

import gdb

LINES_MAX = 200
TEXT_MAX = 200  # bytes of a text that is shown
MEMBERS_MAX = 1000000  # of a list, which may be a ring in a process that broke
ROOT = "run_node::run.node"  # static in core/node/run.c


def text(pointer):
    """A C string, "-" for NULL."""
    if int(pointer) == 0:
        return "-"
    return pointer.string(errors="replace", length=-1)[:TEXT_MAX]


def name(state, prefix):
    """LB_PLACING as "placing"."""
    return str(state)[len(prefix):].lower()


def tailq(head, link):
    """Members of a TAILQ or a LIST, by the name of their link."""
    is_tailq = has(head, "tqh_first")
    first, following = ("tqh_first", "tqe_next") if is_tailq else ("lh_first", "le_next")
    at = head[first]
    for _ in range(MEMBERS_MAX):
        if int(at) == 0:
            return
        yield at.dereference()
        at = at[link][following]


def hashed(first):
    """Members of a uthash table."""
    kind = first.type
    for _ in range(MEMBERS_MAX):
        if int(first) == 0:
            return
        yield first.dereference()
        first = first["hh"]["next"].cast(kind)


def has(value, field):
    return any(f.name == field for f in value.type.strip_typedefs().fields())


def node():
    try:
        n = gdb.parse_and_eval(ROOT)
    except gdb.error as e:
        raise gdb.GdbError("no node here: %s; expected a process or a core file of fnd run" % e)
    if int(n["loop"]) == 0:
        raise gdb.GdbError("the node has no loop yet; expected one that came past node_make()")
    return n


def age(n, since_ns):
    """Since a time of the loop's clock, until the last event that the loop began with."""
    if int(since_ns) == 0:
        return "-"
    return "%.1fs" % max(0, (int(n["loop"]["now_ns"]) - int(since_ns)) / 1e9)


def rows(title, head, lines):
    """A table with at most LINES_MAX rows."""
    shown = [head]
    more = 0
    broken = ""
    try:
        for line in lines:
            if len(shown) <= LINES_MAX:
                shown.append([str(cell) for cell in line])
            else:
                more += 1
    except gdb.MemoryError as e:
        broken = ", and then what cannot be read: %s" % e
    print("%s: %d%s" % (title, len(shown) - 1 + more, broken))
    if len(shown) == 1:
        return
    widths = [max(len(row[i]) for row in shown) for i in range(len(head))]
    for row in shown:
        print("  " + "  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip())
    if more:
        print("  and %d more" % more)


def lb_calls(n):
    for c in tailq(n["lb"]["calls"], "link"):
        at = text(c["place"]["address"]) if int(c["attempt"]) else "-"
        gone = "client gone" if c["client_gone"] else ""
        yield [c["id"].string(), name(c["state"], "LB_"), age(n, c["created_ns"]), at, c["offers"],
               text(c["place"]["view"]["fn_id"]), gone, "((struct lb_call *)0x%x)" % int(c.address)]


def runner_calls(n):
    for rc in tailq(n["runner"]["calls"], "all"):
        at = rc["c"]["id"].string() if int(rc["c"]) else "-"
        gone = "" if int(rc["session"]) else "caller gone"
        yield [text(rc["call"]["id"]), name(rc["state"], "RC_"), age(n, rc["created_ns"]), at,
               rc["body"]["len"], text(rc["call"]["fn_id"]), gone,
               "((struct rcall *)0x%x)" % int(rc.address)]


def containers(n):
    for c in hashed(n["runner"]["containers"]):
        call = text(c["call"]["call"]["id"]) if int(c["call"]) else "-"
        yield [c["id"].string(), name(c["state"], "CTR_"), age(n, c["launched_ns"]), call,
               name(c["op"]["kind"], "OP_"), text(c["task"]["fn_id"]), text(c["task"]["image"]),
               "((struct container *)0x%x)" % int(c.address)]


def slot_queues(n):
    for q in hashed(n["runner"]["queues"]):
        yield [text(q["fn_id"]), text(q["app_id"]), q["n_waiters"], q["n_idle"], q["n_starting"],
               q["n_containers"], "((struct slot_queue *)0x%x)" % int(q.address)]


def groups(n):
    for g in hashed(n["place"]["groups"]):
        yield [g["name"].string(), g["waiting_n"], g["trying_n"], g["snap"]["view"]["n"],
               g["wakes"], "((struct place_group *)0x%x)" % int(g.address)]


def lanes(n):
    of = n["loop"]["lanes"]["lane"]
    names = gdb.lookup_type("enum env_lane").fields()
    for i in range(of.type.range()[1] + 1):
        lane = of[i]
        yield [name(names[i].name, "ENV_LANE_"), lane["queued"], lane["queue_max"],
               sum(1 for _ in tailq(lane["running"], "link")), lane["threads_n"],
               lane["threads_max"], lane["lost"]]


class Calls(gdb.Command):
    """Calls of the load balancer and of the runner."""

    def __init__(self):
        super().__init__("fnd-calls", gdb.COMMAND_DATA)

    def invoke(self, _argument, _from_tty):
        n = node()
        if int(n["lb"]):
            rows("load balancer, calls", ["CALL", "STATE", "AGE", "RUNNER", "OFFERS", "FUNCTION",
                                          "", "OBJECT"], lb_calls(n))
        if int(n["runner"]):
            rows("runner, calls", ["CALL", "STATE", "AGE", "CONTAINER", "BODY", "FUNCTION", "",
                                   "OBJECT"], runner_calls(n))


class Containers(gdb.Command):
    """Containers of the runner."""

    def __init__(self):
        super().__init__("fnd-containers", gdb.COMMAND_DATA)

    def invoke(self, _argument, _from_tty):
        n = node()
        if not int(n["runner"]):
            raise gdb.GdbError("this node has no runner")
        rows("containers", ["CONTAINER", "STATE", "AGE", "CALL", "ENGINE", "FUNCTION", "IMAGE",
                            "OBJECT"], containers(n))


class Queues(gdb.Command):
    """What waits: slot queues, groups of runners, lanes, tasks and timers of the loop."""

    def __init__(self):
        super().__init__("fnd-queues", gdb.COMMAND_DATA)

    def invoke(self, _argument, _from_tty):
        n = node()
        if int(n["runner"]):
            rows("slot queues", ["FUNCTION", "APP", "WAITING", "IDLE", "STARTING", "CONTAINERS",
                                 "OBJECT"], slot_queues(n))
        if int(n["place"]):
            rows("groups", ["GROUP", "WAITING", "TRYING", "RUNNERS", "WAKES", "OBJECT"], groups(n))
        rows("lanes", ["LANE", "QUEUED", "AT MOST", "RUNNING", "THREADS", "AT MOST", "LOST"],
             lanes(n))
        tasks = sum(1 for _ in tailq(n["loop"]["tasks"], "link"))
        print("loop: %d tasks, %d timers" % (tasks, int(n["loop"]["timers"]["n"])))


class Arena(gdb.Command):
    """fnd-arena EXPR: the chunks of a struct arena, the newest first."""

    def __init__(self):
        super().__init__("fnd-arena", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, _from_tty):
        a = gdb.parse_and_eval(argument)
        if a.type.strip_typedefs().code == gdb.TYPE_CODE_PTR:
            a = a.dereference()
        if not has(a, "used_bytes"):
            raise gdb.GdbError("%s is no struct arena" % argument)
        rows("chunks of %d bytes" % int(a["used_bytes"]), ["CHUNK", "USED", "SIZE"],
             (["0x%x" % int(c.address), c["used"], c["size"]] for c in chunks(a)))


def chunks(arena):
    at = arena["head"]
    for _ in range(MEMBERS_MAX):
        if int(at) == 0:
            return
        yield at.dereference()
        at = at["next"]


def buf_line(b):
    n = int(b["len"])
    if n == 0:
        return "empty buf"
    head = b["data"].string(errors="replace", length=min(n, TEXT_MAX))
    return '%d bytes "%s"%s' % (n, head, "…" if n > TEXT_MAX else "")


ONE_LINE = {
    "lb_call": lambda c: "lb call %s %s" % (c["id"].string(), name(c["state"], "LB_")),
    "rcall": lambda c: "runner call %s %s" % (text(c["call"]["id"]), name(c["state"], "RC_")),
    "container": lambda c: "container %s %s" % (c["id"].string(), name(c["state"], "CTR_")),
    "slot_queue": lambda q: "queue of %s: %d wait, %d idle, %d containers" % (
        text(q["fn_id"]), int(q["n_waiters"]), int(q["n_idle"]), int(q["n_containers"])),
    "place_group": lambda g: "group %s: %d wait, %d at runners" % (
        g["name"].string(), int(g["waiting_n"]), int(g["trying_n"])),
    "arena": lambda a: "arena of %d bytes in %d chunks" % (
        int(a["used_bytes"]), sum(1 for _ in chunks(a))),
    "buf": buf_line,
}


class OneLine:
    def __init__(self, value, line):
        self.value, self.line = value, line

    def to_string(self):
        return self.line(self.value)


def printer_of(value):
    kind = value.type.unqualified().strip_typedefs()
    if kind.code != gdb.TYPE_CODE_STRUCT or kind.tag not in ONE_LINE:
        return None
    return OneLine(value, ONE_LINE[kind.tag])


for command in (Calls, Containers, Queues, Arena):
    command()
gdb.pretty_printers.append(printer_of)
