"""The hit rate of a trace at unlimited capacity, from the file alone: standard library only, nothing shared."""

import json
import sys
from pathlib import Path

seen: set[int] = set()
hits = tokens = 0
for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    request = json.loads(line)
    length = request["input_length"]
    path, walking = 0, True
    for index, hash_id in enumerate(request["hash_ids"]):
        end = 512 * (index + 1)
        if end > length:  # A partly filled block is not cached.
            break
        path = hash((path, hash_id))
        walking = walking and end < length and path in seen  # The last token is always recomputed.
        hits += 512 * walking
        seen.add(path)
    tokens += length
print(f"{hits / tokens:.6f}")
