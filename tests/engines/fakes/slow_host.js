"use strict";
// A pool with a host tier whose stores and loads take time, for the kit of docs/examples/small-driver, which is named
// first on the command line. With a fault, which is named next, it is wrong on demand.

const path = require("node:path");
const [, , kit, fault] = process.argv;
const { keyOf, serve } = require(path.resolve(kit, "kvproof.js"));
const { Pool } = require(path.resolve(kit, "pool.js"));

class SlowHost {
  static dialect = { keep: "all" };
  static eager = true;

  constructor(blocks, blockTokens, hostBlocks) {
    Object.assign(this, { pool: new Pool(blocks, blockTokens), size: blockTokens });
    Object.assign(this, { keyAt: Array(hostBlocks).fill(null), pins: Array(hostBlocks).fill(0), ready: new Map() });
  }

  lookup(request) {
    return this.pool.lookup(request.tokens);
  }

  allocate(request, tokens) {
    return this.pool.allocate(request.name, request.found, tokens);
  }

  hostLookup(request) {
    const found = [];
    if (fault === "never found") return found;
    for (let end = (request.found.length + 1) * this.size; end < request.tokens.length; end += this.size) {
      const key = keyOf(request.tokens.slice(0, end));
      if (!this.ready.has(key)) break;
      found.push(this.ready.get(key));
    }
    return found;
  }

  load(request, table) {
    for (const block of request.onHost) this.pins[block] += fault !== "no pin";
    if (fault === "registers at once") {
      this.pool.register(request.name, request.tokens.slice(0, (request.found.length + request.onHost.length) * this.size));
    }
    return request.onHost.map((block, n) => [block, table[request.found.length + n]]);
  }

  loaded(request, tokens) {
    for (const block of request.onHost) this.pins[block] -= fault !== "no pin";
    if (tokens > 0) this.pool.register(request.name, request.tokens.slice(0, tokens));
  }

  // A block of the host that nobody reads or writes: one without a key, or else the one that was stored first.
  room() {
    const idle = [...this.pins.keys()].filter((block) => !this.pins[block]);
    const oldest = [...this.ready.values()].find((block) => !this.pins[block]);
    return idle.find((block) => this.keyAt[block] === null) ?? oldest;
  }

  store(requests) {
    if (fault === "stores nothing") return [];
    const jobs = [], known = new Set(this.keyAt);
    for (const { name, tokens, computed } of requests) {
      for (let end = this.size; end <= computed; end += this.size) {
        const key = keyOf(tokens.slice(0, end)), block = known.has(key) ? undefined : this.room();
        if (block === undefined) continue;
        known.add(key);
        this.ready.delete(this.keyAt[block]);
        this.keyAt[block] = key;
        this.pins[block]++;
        const source = this.pool.tables.get(name)[end / this.size - 1];
        if (fault !== "no hold") this.pool.ref[source]++;
        if (fault === "found too early") this.ready.set(key, block);
        jobs.push([{ key, block, source }, [[source, block]]]);
      }
    }
    return jobs;
  }

  stored({ key, block, source }) {
    this.pins[block]--;
    this.ready.set(key, block);
    if (fault !== "no hold" && !--this.pool.ref[source]) this.pool.free.push(source);
  }

  commit(request, tokens) {
    this.pool.register(request.name, request.tokens.slice(0, tokens));
  }

  free(request) {
    this.pool.release(request.name);
  }

  cached() {
    return this.pool.cached;
  }

  refCounts() {
    return this.pool.ref;
  }

  freeQueue() {
    return this.pool.free;
  }

  hostRefCounts() {
    return this.pins;
  }

  hostCached() {
    return this.ready;
  }
}

serve(SlowHost);
