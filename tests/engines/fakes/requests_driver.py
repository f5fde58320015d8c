"""A driver of whole requests: a small, correct manager with a null block, tenants and KV events, and every way to speak
the protocol wrongly, on demand (``--fault NAME``).

It is a program of its own, as a user's would be: it imports nothing of the kit.
"""

import hashlib
import json
import os
import sys
import time

FAULT = sys.argv[sys.argv.index("--fault") + 1] if "--fault" in sys.argv else ""
HIDES = "--hides-cached" in sys.argv
ENGINE_FAULT = sys.argv[sys.argv.index("--engine-fault") + 1] if "--engine-fault" in sys.argv else ""
OPERATIONS = ["start", "resume", "step", "grow", "fork", "finish", "abort", "preempt", "evict", "reset", "drain"]
FIELDS = ["ref", "free", "num_free", "cached", "hashes"]
CAPABILITIES = {
    "operations": OPERATIONS,
    "options": ["caching", "events"],
    "tenants": ["adapter", "salt"],
    "visible": {"device": FIELDS},
    "block_tokens": [2, 3],
}
HELLO = {"protocol": 1, "engine": "fake-requests", "version": "1 of today", "levels": ["requests"]}


class Refused(Exception):
    pass


KEYS: dict = {}
GROUPS = {"no groups": 0, "two groups": 2, "room for three": 2}


class System:
    made = 0

    def __init__(self, blocks, block_tokens, caching=True, events=False, **others):
        if others and FAULT != "ignores options":
            raise Refused(f"no option {min(others)}")
        if min(blocks, block_tokens) < 1:
            raise (ValueError if FAULT == "setup raises" else Refused)("too small")
        if FAULT == "refuses all" or (FAULT == "refuses events" and events):
            raise Refused("not today")
        self.size, self.caching, self.events, self.n = block_tokens, caching, events, blocks + 1
        if FAULT in ("two groups", "room for three"):
            self.n = (2 if FAULT == "two groups" else 3) * blocks + 1
        self.ref, self.free = [0] * self.n, list(range(1, self.n))
        self.cached: dict = {}
        self.of_block: dict = {}
        self.keys = KEYS if FAULT == "remembers" else {}
        self.requests: dict = {}
        self.effects: list = []
        dialect = {"take": "head", "free": "append", "keep": "all" if caching else "none"}
        if FAULT in ("promises nothing", "caches nothing"):
            del dialect["keep"]
        if FAULT == "says it caches nothing":
            dialect["keep"] = "none"
        if FAULT == "no such dialect":
            dialect["keep"] = "most"
        notes = {"dialect": dialect}
        self.last: list = []
        System.made += 1
        if FAULT == "counts messages":
            notes["made"] = System.made
        if FAULT == "says its process":
            notes["process"] = os.getpid()
        self.world = {
            "groups": [{"kind": "full", "block": block_tokens}] * GROUPS.get(FAULT, 1),
            "tiers": {"device": {"blocks": self.n - (FAULT == "counts the null block"), "null": 0}},
            "hash_block": block_tokens,
            "exact": True,
            "notes": notes,
        }

    def tell(self, *effect):
        silent = FAULT.removeprefix("tells no ")
        if effect[0] != silent:
            self.effects.append(list(effect))

    # requests

    def start(self, request, prompt, most=None, adapter=None, salt=None):
        if request in self.requests:
            return None
        self.requests[request] = {
            "tokens": list(prompt),
            "tenant": (adapter, salt),
            "table": [],
            "done": 0,
            "on": False,
        }
        self.tell(
            "request",
            request,
            {"tokens": prompt[:-1] if FAULT == "other prompt" else prompt, "adapter": adapter, "salt": salt},
        )
        return self.admit(request, most)

    def resume(self, request):
        q = self.requests.get(request)
        return None if q is None or q["on"] or FAULT == "never resumes" else self.admit(request)

    def names(self, q):
        ends = range(self.size, len(q["tokens"]) + 1, self.size)
        return [self.keys.setdefault((tuple(q["tokens"][:n]), q["tenant"]), len(self.keys)) for n in ends]

    def admit(self, r, most=None):
        q = self.requests[r]
        n, names = len(q["tokens"]), self.names(q)
        if names:
            self.tell("keys", r, 0, names)
        found = []
        for key in names[: (n - 1) // self.size] if self.caching else []:
            if key not in self.cached:
                break
            found.append(self.cached[key][0])
        if ENGINE_FAULT == "never hits":
            found = []
        if ENGINE_FAULT == "short hits":
            found = found[:-1]
        if ENGINE_FAULT == "own last":
            found = found if names[: len(found)] == self.last[: len(found)] else []
        self.last = names
        until = min(n, len(found) * self.size + (most or n))
        room = len(self.free) - sum(self.ref[b] == 0 for b in found)
        if -(-until // self.size) - len(found) > room:
            if FAULT == "garbage effect":
                self.tell("table", r, 0, 0, [1000])
            return 0 if FAULT == "no booleans" else False
        for block in found:
            if self.ref[block] == 0:
                self.free.remove(block)
            self.ref[block] += 1
        q["table"], q["done"], q["on"] = found, len(found) * self.size, True
        if self.caching:
            self.tell("lookup", r, q["done"], 0, n - 1)
            self.tell("found", r, [list(found)], q["done"])
        self.extend(r, until)
        return 1 if FAULT == "no booleans" else True

    def extend(self, r, until):
        q = self.requests[r]
        need = -(-until // self.size) - len(q["table"])
        if need > len(self.free):
            return False
        for _ in range(need):
            block = self.free.pop(0)
            if ENGINE_FAULT != "keep-hash":
                self.forget(block)
            self.ref[block] = 1
            q["table"].append(block)
        self.tell("table", r, 0, 0, [b - 2 for b in q["table"]] if FAULT == "blocks below 0" else list(q["table"]))
        self.tell("compute", r, q["done"], q["tokens"][q["done"] : until])
        self.tell("processed", r, until)
        q["done"] = until
        if self.caching and FAULT not in ("caches nothing", "says it caches nothing"):
            names = self.names(q)[: until // self.size]
            for i, (key, block) in enumerate(zip(names, q["table"], strict=False)):
                if block not in self.of_block:
                    self.of_block[block] = key
                    self.cached.setdefault(key, []).append(block)
                    if len(self.cached[key]) == 1 and self.events:
                        before = i * self.size + (ENGINE_FAULT == "later tokens" and i > 0)
                        parent = names[i - 1 - (ENGINE_FAULT == "block before last" and i > 1)] if i else None
                        tokens = q["tokens"][before : (i + 1) * self.size]
                        self.tell("stored", "device", 0, [key], parent, tokens, self.size)
        return True

    def forget(self, block):
        key = self.of_block.pop(block, None)
        if key is not None:
            self.cached[key].remove(block)
            if not self.cached[key]:
                del self.cached[key]
                if self.events and ENGINE_FAULT != "silent removal":
                    self.tell("removed", "device", 0, [key])

    def step(self, request, most):
        q = self.requests.get(request)
        if q is None or not q["on"] or q["done"] == len(q["tokens"]):
            return None
        return self.extend(request, min(len(q["tokens"]), q["done"] + (most or len(q["tokens"]))))

    def grow(self, request, tokens):
        q = self.requests.get(request)
        if q is None or not q["on"] or q["done"] < len(q["tokens"]):
            return None
        until = len(q["tokens"]) + len(tokens)
        if -(-until // self.size) - len(q["table"]) > len(self.free):
            return False
        q["tokens"] += tokens
        self.tell("append", request, tokens)
        self.tell("keys", request, 0, self.names(q))
        return self.extend(request, until)

    def fork(self, request, child):
        """What is full is shared, and of what is not the child has a copy."""
        q = self.requests.get(request)
        if q is None or not q["on"] or q["done"] < len(q["tokens"]) or child in self.requests:
            return None
        shared, part = len(q["tokens"]) // self.size, len(q["tokens"]) % self.size > 0
        if part and not self.free:
            return False
        table = q["table"][:shared]
        for block in table:
            self.ref[block] += 1
        if part:
            table.append(self.free.pop(0))
            self.forget(table[-1])
            self.ref[table[-1]] = 1
            if ENGINE_FAULT != "copies no part":
                self.tell("copied", [["device", q["table"][shared], "device", table[-1]]])
        self.requests[child] = {**q, "tokens": list(q["tokens"]), "table": table}
        adapter, salt = q["tenant"]
        about = {"tokens": list(q["tokens"]), "adapter": adapter, "salt": salt}
        self.tell("request", child, about if FAULT == "tells no fork" else {**about, "fork": request})
        self.tell("keys", child, 0, self.names(q))
        self.tell("table", child, 0, 0, list(table))
        if FAULT != "gives nothing to a fork":
            self.tell("found", child, [list(table)], len(q["tokens"]))
        self.tell("processed", child, len(q["tokens"]))
        return True

    def finish(self, request, how="finished"):
        q = self.requests.get(request)
        if q is None or not q["on"]:
            if FAULT == "raises on nobody":
                raise KeyError(request)
            return None
        self.give_up(q)
        del self.requests[request]
        self.tell("end", request, how)
        return "done"

    def give_up(self, q):
        for block in reversed(q["table"]):
            self.ref[block] -= 1
            if self.ref[block] == 0:
                self.free.append(block)
        q["table"], q["done"], q["on"] = [], 0, False

    def abort(self, request):
        q = self.requests.get(request)
        if q is None or q["on"]:
            return self.finish(request, "aborted")
        del self.requests[request]
        self.tell("end", request, "aborted")
        return "done"

    def preempt(self, request):
        q = self.requests.get(request)
        if q is None or not q["on"]:
            return None
        self.give_up(q)
        self.tell("preempted", request)
        return "done"

    def evict(self, block):
        if not 0 < block < self.n:
            return None
        self.forget(block)
        return "done"

    def reset(self):
        if any(self.ref):
            return False
        for block in list(self.of_block):
            self.forget(block)
        return True

    def drain(self):
        if FAULT == "drains nothing":
            return {"left": 0, "pending": 0, "steps": 0}
        if FAULT == "drain says nothing":
            return "done"
        for r in [r for r, q in self.requests.items() if q["on"]]:
            self.finish(r)
        for r in list(self.requests):
            if self.admit(r) is True:
                self.finish(r)
        return {"left": len(self.requests), "pending": 0, "steps": 1}

    def state(self):
        device = {
            "ref": self.ref[:-1] if FAULT == "short ref" else self.ref[:],
            "free": self.free[:],
            "num_free": len(self.free),
            "cached": [[k, 0, blocks[:]] for k, blocks in self.cached.items()],
            "hashes": [[b, [[k, 0]]] for b, k in self.of_block.items()],
        }
        if FAULT == "hides hashes" or HIDES:
            del device["hashes"]
        if HIDES:
            del device["cached"]
        on = {r: [q["table"][:]] for r, q in self.requests.items() if q["on"]}
        state = {"pools": {"device": device}, "tables": on, "running": len(on), "pending": 0}
        return {**state, "waiting": len(self.requests) - len(on)}


def do(system, message, say):
    steps = []
    shown, full_at = message.get("snapshots", "full"), message.get("full_at", [])
    for op, args in message["more"] if "more" in message else message["ops"]:
        step = {"op": op, "args": args}
        steps.append(step)
        if FAULT == "answers another" and op == "finish":
            step["op"] = "abort"
        try:
            if FAULT == "slow":
                time.sleep(30)
            result = getattr(system, op)(**args) if FAULT != "skips all" else None
            step.update({"skipped": True} if result is None else {"result": None if result == "done" else result})
        except Exception as error:
            step["error"] = {"type": type(error).__name__, "message": str(error), "where": []}
            if FAULT == "error is a text":
                step["error"] = str(error)
        if getattr(system, "events", False) and FAULT != "no boundary" and "error" not in step:
            system.tell("boundary", "device")
        step["effects"], system.effects = ([] if step.get("skipped") else system.effects), []
        if FAULT == "skips and tells" and step.get("skipped"):
            step["effects"] = [["zero", "device", [1]]]
        if "error" not in step:
            if shown == "full" or len(steps) - 1 in full_at or FAULT == "always full":
                step["state"] = system.state()
            elif shown == "digest":
                text = "" if FAULT == "one digest" else json.dumps(system.state())
                step["digest"] = hashlib.sha256(text.encode()).hexdigest()[:16]
        if message.get("stream") and FAULT != "no stream":
            say({"step": step})
        if "error" in step:
            break
    return steps


def answer(message, kept, say):
    if FAULT == "strict" and set(message) - {
        "id",
        "level",
        "setup",
        "ops",
        "snapshots",
        "full_at",
        "keep",
        "more",
        "stream",
    }:
        return {"refused": "an unknown field"}, None
    system = kept
    if "more" not in message:
        if message["level"] != "requests" and FAULT != "any level":
            return {"refused": "no such level"}, None
        try:
            system = System(**(message["setup"] or {"blocks": 4, "block_tokens": 2}))
        except Refused as error:
            return {"refused": str(error)}, None
        except ValueError as error:
            return {
                "steps": [{"op": "setup", "args": {}, "error": {"type": "ValueError", "message": str(error)}}]
            }, None
    elif system is None:
        return {"refused": "nothing was kept"}, None
    elif FAULT == "begins anew":
        system = System(4, 2)
    steps = do(system, message, say)
    keep = message.get("keep") or "more" in message or FAULT == "keeps always"
    if steps and "error" in steps[-1] and FAULT != "keeps after errors":
        keep = False
    if FAULT == "one step too few":
        steps = steps[:-1]
    if FAULT == "refuses and goes on":
        return {"refused": "no", "world": system.world, "steps": steps}, None
    if FAULT == "no world":
        return {"steps": []}, None
    return (
        {"steps": steps} if "more" in message else {"world": system.world, "steps": steps}
    ), system if keep else None


def main():
    out = os.fdopen(os.dup(1), "w")

    def say(message):
        out.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        out.flush()

    if FAULT == "no hello":
        time.sleep(30)
    if FAULT == "crashes":
        print("this engine needs a licence", file=sys.stderr)
        sys.exit(3)
    capabilities = CAPABILITIES
    if FAULT == "typo in the hello":
        capabilities = {**CAPABILITIES, "visibel": {}}
    if FAULT == "tenants of later":
        capabilities = {**CAPABILITIES, "tenants": ["moon", "salt"]}
    if FAULT == "more than it can":
        capabilities = {**CAPABILITIES, "operations": [*OPERATIONS, "mirror"]}
    if FAULT == "cannot start":
        capabilities = {**CAPABILITIES, "operations": ["drain"]}
    hello = {**HELLO, "capabilities": {"requests": capabilities}}
    if FAULT == "no levels":
        hello["levels"] = []
    if FAULT == "other protocol":
        hello = {"protocol": 99, "what": "ever"}
    say("Welcome!" if FAULT == "no json" else {"hello": hello})
    kept = None
    hoard = []
    for served, line in enumerate(sys.stdin):
        message = json.loads(line)
        if FAULT == "hoards":
            hoard.append(bytearray(b"x" * 2**26))
            time.sleep(0.2)
        answered, kept = answer(message, kept, say)
        if FAULT == "wears out" and served == 20:
            sys.exit("worn out")
        number = message["id"] % 2**16 if FAULT == "short numbers" else message["id"]
        say({"id": number, **answered})
        if FAULT == "chatters":
            say("served one more")


main()
