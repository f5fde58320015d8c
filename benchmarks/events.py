"""How fast a recorded stream of KV events is decoded and checked, on one core, and whether clean events stay silent.

The stream is that of an engine on the reference implementation's block pool: requests with common prefixes, eviction,
resets. What is believed at its end must be what the pool has cached. Time is that of the process, reading the file
included. Other processes slow a machine down by turns: of each slice of the stream the least time of all rounds counts.
Reading, decoding and checking take turns, so that their shares are of one run.

    python benchmarks/events.py [--events 1000000] [--batch 32] [--new 3] [--blocks 4096] [--rounds 3] [--json FILE]

Exit status 1 if a clean event raises an alarm.
"""

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from time import process_time

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1]))

from kvproof.events.arrival import Arrival, checksum
from kvproof.events.checking import Checker
from kvproof.events.decoding import Decoder
from kvproof.events.maps import final_map, key_text
from kvproof.events.reading import read_stream
from kvproof.events.recording import Recorder
from kvproof.events.wire import Cleared, Event, Stored
from tests.events.streams import PublishingEngine

WANTED = 1_000_000
"""Events a second."""
SLICE = 100
"""Batches that are timed together."""


def batches(engine: PublishingEngine, events: int, size: int) -> Iterator[list[Event]]:
    """Batches of this size, until there are so many events."""
    waiting: list[Event] = []
    made = 0
    while made < events:
        while len(waiting) < size:
            waiting += engine.step()
        yield waiting[:size]
        made += size
        del waiting[:size]
    if waiting:
        yield waiting


def written(event: Event) -> dict[str, object]:
    """An event as vLLM 0.33 publishes it: a map, with what has no default, what is not as usual, and keys per block."""
    fields = msgspec.to_builtins(event, builtin_types=(bytes,))
    always = {"type", "block_hashes", "medium"}
    if isinstance(event, Stored):
        always |= {"parent_block_hash", "token_ids", "block_size", "lora_id", "lora_name"}
        fields["extra_keys"] = [None] * len(event.block_hashes)
    return {name: value for name, value in fields.items() if name in always or value is not None}


def write(engine: PublishingEngine, path: Path, events: int, size: int) -> tuple[int, int]:
    """Record the engine's events; return how many, and how many blocks they name."""
    made = told = 0
    with Recorder(path) as recorder:
        for number, batch in enumerate(batches(engine, events, size)):
            payload = msgspec.msgpack.encode([0.5, [written(event) for event in batch], 0])
            recorder.write(Arrival("benchmark", b"kv", number, payload, checksum(payload)))
            made += len(batch)
            told += sum(len(event.block_hashes) for event in batch if not isinstance(event, Cleared))
    return made, told


def slices(path: Path, take: Callable[[Arrival], object]) -> list[float]:
    """Seconds that each slice of the stream takes, reading it included."""
    stream, seconds = read_stream(path), []
    while True:
        start, taken = process_time(), 0
        for arrival in islice(stream, SLICE):
            assert isinstance(arrival, Arrival)
            take(arrival)
            taken += 1
        seconds.append(process_time() - start)
        if taken < SLICE:
            return seconds


def read(path: Path) -> list[float]:
    """Seconds to read."""
    return slices(path, lambda _: None)


def decode(path: Path) -> list[float]:
    """Seconds to read and decode."""
    decoder = Decoder()
    return slices(path, lambda arrival: decoder(arrival.payload))


def check(path: Path, engine: PublishingEngine) -> list[float]:
    """Seconds to read, decode and check."""
    checker = Checker()
    seconds = slices(path, checker.take)
    if checker.faults or checker.tally.unjudged:
        sys.exit(f"a false alarm: {checker.faults.first or checker.tally.unjudged}")
    believed = {key for row in final_map(checker).blocks for key in row.hashes}
    if believed != {key_text(key) for key in engine.cached}:
        sys.exit("what is believed at the end is not what the pool has cached")
    return seconds


def undisturbed(rounds: list[list[float]]) -> float:
    """The seconds of a round of which no slice was disturbed."""
    least: list[float] = [min(times) for times in zip(*rounds, strict=True)]
    return sum(least)


def main() -> None:
    """Measure, and say what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=32, help="events of a batch")
    parser.add_argument("--new", type=int, default=3, help="blocks that a prompt adds at most, told in one event")
    parser.add_argument("--blocks", type=int, default=4096, help="blocks of the pool")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    engine = PublishingEngine(1, blocks=options.blocks, resets=0.0001, new=options.new)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream"
        events, told = write(engine, path, options.events, options.batch)
        size = path.stat().st_size
        gc.collect()
        gc.freeze()  # The engine is not part of what is measured.
        rounds = [(read(path), decode(path), check(path, engine)) for _ in range(options.rounds)]
    reading, decoding, checking = (undisturbed(list(stage)) for stage in zip(*rounds, strict=True))
    whole = [sum(last) for _, _, last in rounds]
    report = {
        "events": events,
        "blocks_told": told,
        "batch": options.batch,
        "new": options.new,
        "bytes": size,
        "decoded_per_second": round(events / decoding),
        "checked_per_second": round(events / checking),
        "blocks_checked_per_second": round(told / checking),
        "of_wanted": round(events / checking / WANTED, 3),
        "of_wanted_worst_round": round(events / max(whole) / WANTED, 3),
        "share_of_reading": round(reading / checking, 3),
        "share_of_decoding": round((decoding - reading) / checking, 3),
        "false_alarms": 0,
    }
    for name, value in report.items():
        print(f"{name:>26} {value:,}")
    if options.json:
        options.json.write_text(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
