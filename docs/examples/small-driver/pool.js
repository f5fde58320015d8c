"use strict";
// A small block pool with a prefix cache. It knows nothing of kvproof. With a fault it is wrong on demand.

class Pool {
  constructor(blocks, blockTokens, fault = "") {
    Object.assign(this, { blockTokens, fault, cached: new Map(), tables: new Map() });
    this.ref = Array(blocks).fill(0);
    this.keyOf = Array(blocks).fill(null);
    this.free = [...this.ref.keys()]; // The head is taken next.
  }

  // A key names all tokens up to the end of its block.
  keys(tokens) {
    const ends = Array.from({ length: Math.floor(tokens.length / this.blockTokens) }, (_, n) => (n + 1) * this.blockTokens);
    return ends.map((end) => tokens.slice(this.fault === "no-parent" ? end - this.blockTokens : 0, end).join());
  }

  // The blocks that hold the beginning of these tokens. The last token has to be computed in any case.
  lookup(tokens) {
    const found = [];
    for (const key of this.keys(tokens.slice(0, -1))) {
      if (!this.cached.has(key)) break;
      found.push(this.cached.get(key));
    }
    return found;
  }

  // Blocks for so many tokens in all; one that is new takes hold of what was found. Null: no room.
  allocate(name, found, tokens) {
    const table = this.tables.get(name) ?? [];
    const held = this.tables.has(name) ? [] : found;
    const missing = Math.ceil(tokens / this.blockTokens) - table.length - held.length;
    if (missing > this.free.length - held.filter((block) => !this.ref[block]).length) return null;
    for (const block of held) {
      if (!this.ref[block]++ && this.fault !== "no-touch") this.free.splice(this.free.indexOf(block), 1);
    }
    table.push(...held);
    for (let n = 0; n < missing; n++) table.push(this.take());
    this.tables.set(name, table);
    return table;
  }

  take() {
    const block = this.free.shift();
    this.cached.delete(this.keyOf[block]);
    this.keyOf[block] = null;
    this.ref[block] = 1;
    return block;
  }

  // These tokens are computed: the blocks that they fill can be found from now on.
  register(name, tokens) {
    this.keys(tokens).forEach((key, n) => {
      const block = this.tables.get(name)[n];
      if (this.keyOf[block] !== null || this.cached.has(key)) return;
      this.cached.set(key, block);
      this.keyOf[block] = key;
    });
  }

  release(name) {
    for (const block of this.tables.get(name).reverse()) if (!--this.ref[block]) this.free.push(block);
    this.tables.delete(name);
  }
}

module.exports = { Pool };
