"""Run by an engine's own interpreter: a release's block pool and its own publisher, on loopback.

    python publisher_child.py WORKER_FOLDER PORT REPLAY_PORT

Says ``ready`` when it publishes, then obeys a line at a time: ``step N`` (so many requests, a batch each), ``lose N``
(the same, which only the replay buffer hears), ``twice`` (one prompt computed twice at once, and both copies evicted),
``window`` (blocks that left their window are not cached), ``reset``, ``map`` (what the pool has cached, as JSON).
"""

import hashlib
import json
import random
import sys
import time

sys.path[:0] = sys.argv[1].split(":")

from vllm.distributed.kv_events import BlockStored, KVEventBatch, ZmqEventPublisher  # noqa: E402
from vllm.v1.core.block_pool import BlockPool  # noqa: E402
from vllm.v1.core.kv_cache_utils import get_block_hash, maybe_convert_block_hash  # noqa: E402
from vllm_common import make_request, taken  # noqa: E402

SIZE = 16
draw = random.Random(4)
pool = taken(BlockPool, num_gpu_blocks=40, enable_caching=True, hash_block_size=SIZE, enable_kv_cache_events=True)
publisher = ZmqEventPublisher(0, f"tcp://*:{sys.argv[2]}", f"tcp://127.0.0.1:{sys.argv[3]}", topic="kv@test")
prompts: list = [[]]


def chain(tokens):
    """The hashes of a prompt's blocks."""
    hashes, parent = [], b""
    for at in range(0, len(tokens), SIZE):
        parent = hashlib.sha256(parent + repr(tokens[at : at + SIZE]).encode()).digest()
        hashes.append(parent)
    return hashes


def compute(tokens, reuse=True):
    """Have a prompt computed, but for what is cached, and return its blocks, which are held."""
    request = make_request("r", tokens)
    request.block_hashes = chain(tokens)
    found = []
    for key in request.block_hashes if reuse else ():
        blocks = pool.get_cached_block(key, [0])
        if not blocks:
            break
        found += blocks
    pool.touch(found)
    blocks = found + pool.get_new_blocks(len(request.block_hashes) - len(found))
    pool.cache_full_blocks(request, blocks, len(found), len(blocks), SIZE, 0)
    return blocks


def prompt():
    known = draw.choice(prompts)
    tokens = known[: SIZE * draw.randint(0, len(known) // SIZE)]
    tokens = tokens + [draw.randrange(150_000) for _ in range(SIZE * draw.randint(1, 3))]
    prompts.append(tokens[: SIZE * 12])
    return prompts[-1]


def publish():
    publisher.publish(KVEventBatch(ts=time.time(), events=pool.take_events()))


def step(count):
    for _ in range(count):
        pool.free_blocks(compute(prompt())[::-1])
        publish()


def lose(count):
    """Publish where nobody listens: numbers are taken, and only the replay knows of it."""
    wait_until_sent()
    socket, publisher._pub = publisher._pub, Mute()
    step(count)
    wait_until_sent()
    publisher._pub = socket


class Mute:
    def send_multipart(self, parts):
        """Send nothing."""


def wait_until_sent():
    while publisher._event_queue.unfinished_tasks:
        time.sleep(0.005)


def twice():
    tokens = [draw.randrange(150_000) for _ in range(SIZE * 2)]
    first, second = compute(tokens), compute(tokens, reuse=False)
    pool.free_blocks(first[::-1])
    pool.free_blocks(second[::-1])
    publish()
    step(40)


def window():
    """A group whose first block left its window before it could be cached."""
    tokens = [draw.randrange(150_000) for _ in range(SIZE * 3)]
    request = make_request("w", tokens)
    request.block_hashes = chain(tokens)
    blocks = [pool.null_block, *pool.get_new_blocks(2)]
    pool.cache_full_blocks(request, blocks, 0, 3, SIZE, 0)
    pool.free_blocks(blocks[:0:-1])
    publish()


def reset():
    assert pool.reset_prefix_cache()
    publish()


def cached():
    """What the pool itself would find, group 0 being the only one."""
    told = [maybe_convert_block_hash(get_block_hash(key)) for key in pool.cached_block_hash_to_block._cache]
    hashes = [key.hex() if isinstance(key, bytes) else key for key in told]
    return {"blocks": [{"group": 0 if "group_idx" in BlockStored.__struct_fields__ else None, "hashes": hashes}]}


WORDS = {"step": step, "lose": lose, "twice": twice, "window": window, "reset": reset, "map": cached}
print("ready", flush=True)
for line in sys.stdin:
    word, *numbers = line.split()
    answer = WORDS[word](*map(int, numbers))
    wait_until_sent()
    print(json.dumps(answer), flush=True)
publisher.shutdown()
