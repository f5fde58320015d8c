"use strict";
// A small KV-cache block manager with a mirrored host tier. It knows nothing of kvproof.
//
// Blocks are numbered from 0, and none of them is a null block. A full block is cached under the hash of its tokens and of
// all before them. After each step a caller mirrors its batch to the host, an LRU map from hash to content; what has left
// the device since comes back when a request with that prefix is admitted.
//
// `fault` makes it wrong in one way, so that one can see a checker notice it; without it, it is right as far as we know.

const { createHash } = require("node:crypto");

class Manager {
  // `onCopy(from, to, hash, block)` is called when the content of a block goes to the host or comes from there.
  constructor({ blocks, hostBlocks = 0, blockTokens, caching = true, fault = "", onCopy = () => {} }) {
    Object.assign(this, { blockTokens, hostBlocks, caching, fault, onCopy });
    this.ref = Array(blocks).fill(0);
    this.free = [...this.ref.keys()]; // The head is taken first.
    this.hashOf = Array(blocks).fill(null);
    this.device = new Map(); // hash -> blocks, the first registered first
    this.host = new Map(); // hash -> true, the least recently used first
    this.running = new Map(); // name -> request
  }

  // The hashes of a request's full blocks, each chained to the one before it.
  hashes({ tokens, salt = "" }) {
    const found = [];
    for (let end = this.blockTokens; end <= tokens.length; end += this.blockTokens) {
      const parent = this.fault === "no-chain" ? "" : found.at(-1) ?? `salt:${this.fault === "no-salt" ? "" : salt}`;
      const text = `${parent}|${tokens.slice(end - this.blockTokens, end)}`;
      found.push(createHash("sha256").update(text).digest("base64"));
    }
    return found;
  }

  // Admit a request {name, tokens, salt}: find its prefix, bring back what the host has of it, and make room for its first
  // tokens, at most `most` behind the prefix. Returns null where there is no room, and then nothing has changed.
  admit(request, most = Infinity) {
    if (this.fault === "stale-claim") return this.admitWithoutHolding(request, most);
    const size = this.blockTokens, hashes = this.hashes(request);
    // The last token is computed anew: somebody needs its logits.
    const limit = Math.floor((request.tokens.length - (this.fault === "whole-hit" ? 0 : 1)) / size);
    const plan = [];
    for (const hash of this.caching ? hashes.slice(0, limit) : []) {
      const block = this.device.get(hash)?.[0];
      if (block === undefined && !this.host.has(hash)) break;
      plan.push({ hash, block });
    }
    if (this.fault === "never-hits") plan.length = 0;
    if (this.fault === "short-hits") plan.pop();
    const found = plan.filter((entry) => entry.block !== undefined).map((entry) => entry.block);
    const computed = Math.min(plan.length * size, request.tokens.length);
    const until = Math.min(request.tokens.length, computed + most);
    const needed = Math.ceil(until / size) - found.length;
    const room = this.free.length - found.filter((block) => this.ref[block] === 0).length;
    if (needed > room) {
      if (this.fault === "refusal-evicts" && this.free.length) this.forget(this.free[0]);
      return null;
    }
    found.forEach((block) => this.hold(block)); // Before anything is taken: also what stands behind a gap.
    const table = plan.map(({ hash, block }) => block ?? this.reload(hash));
    while (table.length * size < until) table.push(this.take());
    const local = plan.findIndex((entry) => entry.block === undefined);
    this.running.set(request.name, Object.assign(request, { table, computed, hashes }));
    if (this.fault === "foreign-reload") {
      const other = [...this.host.keys()].find((hash) => !this.device.has(hash));
      if (other !== undefined && this.free.length) this.release([this.reload(other)]);
    }
    return { local: (local < 0 ? plan.length : local) * size, until, prefix: table.slice(0, plan.length) };
  }

  // What the simulator BLIS does (sim/kv/tiered.go of commit f90a1e3a, 2026-08-22): found blocks are not held while others
  // are reloaded, and where a second lookup finds no more than the first, the blocks of the first are claimed as they were.
  admitWithoutHolding(request, most) {
    const size = this.blockTokens, hashes = this.hashes(request);
    const limit = this.caching ? Math.floor((request.tokens.length - 1) / size) : 0;
    const lookup = () => {
      const end = hashes.slice(0, limit).findIndex((hash) => !this.device.has(hash));
      return hashes.slice(0, end < 0 ? limit : end).map((hash) => this.device.get(hash)[0]);
    };
    let prefix = lookup(), reloads = 0;
    const local = prefix.length * size, room = this.free.length;
    for (const hash of hashes.slice(prefix.length, limit)) {
      if (this.device.has(hash)) continue;
      if (!this.host.has(hash) || reloads++ >= room) break;
      const block = this.reload(hash);
      this.release([block]);
    }
    const again = lookup();
    if (again.length > prefix.length) prefix = again;
    const until = Math.min(request.tokens.length, prefix.length * size + most);
    const unheld = prefix.filter((block) => this.ref[block] === 0).length;
    if (Math.ceil(until / size) - prefix.length + unheld > this.free.length) return null;
    prefix.forEach((block) => this.hold(block));
    const table = [...prefix], computed = prefix.length * size;
    while (table.length * size < until) table.push(this.take());
    this.running.set(request.name, Object.assign(request, { table, computed, hashes }));
    return { local: Math.min(local, computed), until, prefix };
  }

  // Make room for a running request's tokens up to `until`; false where there is none, and then nothing has changed.
  extend(request, until) {
    const needed = Math.ceil(until / this.blockTokens) - request.table.length;
    if (needed > this.free.length) return false;
    for (let n = 0; n < needed; n++) request.table.push(this.take());
    return true;
  }

  // The tokens up to `until` are computed: blocks that are full now are cached.
  computed(request, until) {
    request.computed = until;
    if (!this.caching) return;
    request.hashes = this.hashes(request);
    request.hashes.slice(0, Math.floor(until / this.blockTokens)).forEach((hash, n) => {
      if (this.hashOf[request.table[n]] === null) this.register(hash, request.table[n]);
    });
  }

  // The request gives up its blocks, the last one first; they keep their hashes until they are taken again.
  end(request, preempted = false) {
    this.running.delete(request.name);
    const table = [...request.table].reverse();
    if (this.fault === "leak" && preempted) table.pop();
    if (this.fault === "mirrors-at-end" && this.hostBlocks) this.mirror([request]);
    if (this.fault === "double-free" && table.length > 1) this.free.push(table[0]);
    this.release(table);
    Object.assign(request, { table: [], computed: 0 });
  }

  mirror(batch) {
    for (const request of batch) {
      for (const block of request.table) {
        const hash = this.hashOf[block];
        if (hash === null) continue;
        if (this.host.delete(hash)) {
          this.host.set(hash, true); // Touched: now the most recently used.
        } else {
          if (this.fault === "first-block-only" && block !== request.table[0]) continue;
          if (this.host.size >= this.hostBlocks && this.fault !== "no-capacity") {
            this.host.delete([...this.host.keys()].at(this.fault === "evict-newest" ? -1 : 0));
          }
          this.host.set(hash, true);
          if (this.fault === "mirror-evicts") this.forget(block);
          this.onCopy("device", "host", hash, this.fault === "copies-first-block" ? request.table[0] : block);
        }
      }
    }
  }

  evict(block) {
    if (this.fault !== "evict-nothing") this.forget(block);
  }

  reset() {
    if (this.ref.some((count) => count > 0)) return false;
    this.ref.forEach((_, block) => this.forget(block));
    if (this.fault !== "reset-keeps-host") this.host.clear();
    return true;
  }

  // ------------------------------------------------------------------------------------------------------- single blocks

  hold(block) {
    if (this.ref[block]++ === 0) this.free.splice(this.free.indexOf(block), 1);
  }

  take() {
    const block = this.fault === "takes-tail" ? this.free.pop() : this.free.shift();
    if (this.fault !== "keep-hash") this.forget(block);
    this.ref[block] = 1;
    return block;
  }

  release(blocks) {
    for (const block of blocks) {
      if (--this.ref[block] !== 0) continue;
      if (this.fault === "frees-to-head") this.free.unshift(block);
      else this.free.push(block);
    }
  }

  reload(hash) {
    const block = this.take();
    this.host.delete(hash);
    if (this.fault !== "reload-drops-host") this.host.set(hash, true);
    this.onCopy("host", "device", hash, block);
    this.register(hash, block);
    return block;
  }

  register(hash, block) {
    this.hashOf[block] = hash;
    if (this.fault === "one-block-per-hash") this.device.set(hash, []);
    this.device.set(hash, [...(this.device.get(hash) ?? []), block]);
  }

  forget(block) {
    const hash = this.hashOf[block];
    if (hash === null) return;
    this.hashOf[block] = null;
    const left = (this.device.get(hash) ?? []).filter((other) => other !== block);
    if (left.length) this.device.set(hash, left);
    else this.device.delete(hash);
  }
}

module.exports = { Manager };
