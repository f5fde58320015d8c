"use strict";
// A pool of a model with full attention and a sliding window, for the kit of docs/examples/small-driver, which is named
// first on the command line. With a fault, which is named next, it is wrong on demand.

const path = require("node:path");
const [, , kit, fault] = process.argv;
const { keyOf, serve } = require(path.resolve(kit, "kvproof.js"));

const NULL = 0, WINDOW = 5;

class HybridPool {
  static groups = [null, WINDOW];
  static nullBlock = NULL;
  static dialect = { keep: "all" };

  constructor(blocks, size) {
    Object.assign(this, { size, tables: new Map(), maps: [new Map(), new Map()] });
    Object.assign(this, { ref: Array(blocks + 1).fill(0), keyAt: Array(blocks + 1).fill(null) });
    this.free_ = [...this.ref.keys()].slice(1);
  }

  key(tokens, block) {
    return keyOf(tokens.slice(0, (block + 1) * this.size));
  }

  // The first block of a group that somebody needs who goes on behind so many tokens.
  firstNeeded(group, tokens) {
    const window = WINDOW - (fault === "short window" ? 2 : 0);
    return group ? Math.floor(Math.max(0, tokens - window + 1) / this.size) : 0;
  }

  lookup({ tokens }) {
    for (let hit = Math.floor((tokens.length - 1) / this.size); hit > 0; hit--) {
      const found = this.maps.map((map, group) => Array.from({ length: hit }, (_, block) => {
        return block < this.firstNeeded(group, hit * this.size) ? NULL : map.get(this.key(tokens, block));
      }));
      if (found.every((table) => !table.includes(undefined))) return found;
    }
    return [[], []];
  }

  allocate(request, tokens) {
    const isNew = !this.tables.has(request.name), table = isNew ? [[], []] : this.tables.get(request.name);
    if (!isNew && fault !== "keeps all") this.giveUp(request, table);
    const found = isNew ? request.found : [[], []];
    const length = Math.ceil(tokens / this.size);
    const missing = table.map((blocks, group) => Math.max(0, length - blocks.length - (found[group]?.length ?? 0)));
    const idle = found.flat().filter((block) => block !== NULL && !this.ref[block]).length;
    if (missing[0] + missing[1] > this.free_.length - idle) return null;
    found.forEach((blocks, group) => {
      blocks.forEach((block) => this.hold(block));
      table[group].push(...blocks);
    });
    missing.forEach((count, group) => {
      for (let n = 0; n < count; n++) table[group].push(this.take(group));
    });
    this.tables.set(request.name, table);
    return table;
  }

  // What lies behind the window is not needed any more.
  giveUp({ computed }, table) {
    for (let block = this.firstNeeded(1, computed) - 1; block >= 0; block--) {
      this.drop(table[1][block]);
      table[1][block] = NULL;
    }
  }

  hold(block) {
    if (block === NULL) return;
    if (!this.ref[block]++) this.free_.splice(this.free_.indexOf(block), 1);
  }

  drop(block) {
    if (block !== NULL && !--this.ref[block]) this.free_.push(block);
  }

  take() {
    const block = this.free_.shift();
    if (this.keyAt[block] !== null) {
      const [key, group] = this.keyAt[block];
      this.maps[group].delete(key);
    }
    this.keyAt[block] = null;
    this.ref[block] = 1;
    return block;
  }

  commit({ name, tokens }, computed) {
    this.tables.get(name).forEach((table, group) => {
      for (let n = 0; (n + 1) * this.size <= computed; n++) {
        const block = table[n], key = this.key(tokens, n), of = fault === "one map" ? 0 : group;
        if (block === NULL || this.keyAt[block] !== null || this.maps[of].has(key)) continue;
        this.maps[of].set(key, block);
        this.keyAt[block] = [key, of];
      }
    });
  }

  free({ name }) {
    for (const table of this.tables.get(name)) for (const block of [...table].reverse()) this.drop(block);
    this.tables.delete(name);
  }

  table({ name }) {
    return this.tables.get(name);
  }

  refCounts() {
    return this.ref;
  }

  freeQueue() {
    return this.free_;
  }

  cached() {
    return this.maps.flatMap((map, group) => [...map].map(([key, block]) => [[key, group], block]));
  }
}

serve(HybridPool);
