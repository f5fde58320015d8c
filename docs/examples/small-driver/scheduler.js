"use strict";
// The server around a block manager: it admits requests, lets them compute and grow, and tells what happened in the
// effects of the worker protocol (docs/protocol.md). It is the same for every manager. Copy it beside yours.

const { HostSide, tellCopied } = require("./host.js");

const OPERATIONS = [
  "start", "resume", "step", "grow", "fork", "finish", "abort", "preempt", "cut", "mirror", "loaded", "drain", "begin",
  "batch",
];
// What is not asked of a manager that says so: `static oneByOne`, `static neverCut`.
const UNLESS = { begin: "oneByOne", batch: "oneByOne", cut: "neverCut" };
const NEEDS = { fork: "fork", mirror: "store", loaded: "loaded" };
const SHOWN = {
  device: { ref: "refCounts", free: "freeQueue", num_free: "numFree", cached: "cached" },
  host: { ref: "hostRefCounts", free: "hostFreeQueue", cached: "hostCached" },
};

const has = (Adapter, method) => Boolean(Adapter.prototype[method]);
const operationsOf = (Adapter) =>
  OPERATIONS.filter((name) => !Adapter[UNLESS[name]] && (!NEEDS[name] || has(Adapter, NEEDS[name])));

// The fields of a pool's state that a manager tells.
const fieldsOf = (Adapter, tier) => Object.keys(SHOWN[tier]).filter((field) => has(Adapter, SHOWN[tier][field]));

class Refused extends Error {}

class System {
  constructor(Adapter, { blocks, block_tokens: size, host_blocks: host = 0, ...unknown }) {
    if (Object.keys(unknown).length) throw new Refused(`there is no option ${Object.keys(unknown)[0]}`);
    if (!(Number.isInteger(host) && host >= 0)) throw new Refused("host_blocks must be a number");
    if (host && !has(Adapter, "store")) throw new Refused("there is no option host_blocks");
    for (const [name, value] of [["blocks", blocks], ["block_tokens", size]]) {
      if (!(Number.isInteger(value) && value > 0)) throw new Refused(`${name} must be a number above 0`);
    }
    const { groups, window = null, nullBlock, dialect = { keep: "all" }, eager = false } = Adapter;
    const windows = groups ?? [window];
    blocks *= windows.length;
    host *= windows.length;
    Object.assign(this, { Adapter, size, requests: new Map(), running: new Map(), effects: [], numbers: new Map() });
    this.adapter = new Adapter(blocks, size, host);
    this.host = host ? new HostSide(this.adapter, this.tell.bind(this)) : null;
    const device = nullBlock === undefined ? { blocks } : { blocks: blocks + 1, null: nullBlock };
    const behind = windows.some((each) => each !== null) ? { behind: "needed" } : {};
    const loads = host && has(Adapter, "hostLookup") ? { loads: ["host"] } : {};
    const stores = host && eager && this.host.storesTakeTime ? { eager: ["host"] } : {};
    this.world = {
      groups: windows.map((each) => ({ ...(each ? { kind: "window", window: each } : { kind: "full" }), block: size })),
      tiers: { device, ...(host ? { host: { blocks: host } } : {}) }, hash_block: size, exact: true,
      notes: { dialect: { ...behind, ...dialect }, keys: "tokens", ...loads, ...stores },
    };
  }

  tell(...effect) {
    this.effects.push(effect);
  }

  // Of a manager with groups a table is one for each of them, whoever tells it; else it is a list of blocks.

  read(told) {
    return this.Adapter.groups ? told.map((table) => [...table]) : [[...told]];
  }

  asTold(tables) {
    return this.Adapter.groups ? tables.map((table) => [...table]) : [...tables[0]];
  }

  entry(key) {
    return this.Adapter.groups ? [this.number(key[0]), key[1]] : [this.number(key), 0];
  }

  // Each operation returns its result, or undefined where there was nothing to do it to.

  start({ request: name, prompt, most }) {
    if (this.requests.has(name) || this.host?.loads.has(name)) return undefined;
    const request = { name, tokens: [...prompt], table: [], found: [], onHost: [], computed: 0, told: 0 };
    this.requests.set(name, request);
    this.tell("request", name, { tokens: prompt });
    return this.admit(request, most);
  }

  resume({ request: name }) {
    const request = this.requests.get(name);
    return request && !this.running.has(name) && !this.host?.loads.has(name) ? this.admit(request) : undefined;
  }

  admit(request, most) {
    this.tellKeys(request);
    const found = this.read(this.adapter.lookup(request));
    request.found = this.asTold(found);
    request.onHost = this.host ? this.adapter.hostLookup(request) : [];
    const onHost = this.Adapter.groups ? (request.onHost[0] ?? []) : request.onHost;
    const local = found[0].length * this.size, external = onHost.length * this.size, cached = local + external;
    const until = Math.min(request.tokens.length, cached + (most || Infinity));
    const table = this.allocate(request, until);
    if (table === null) return false;
    if (external && this.host.loadsTakeTime) return this.beginToLoad(request, table, found, external, until);
    if (external) this.host.load(request, this.asTold(table));
    this.running.set(request.name, request);
    this.tell("lookup", request.name, local, external, request.tokens.length - 1);
    this.tell("found", request.name, external ? this.first(table, cached) : found, cached);
    request.computed = Math.min(cached, request.tokens.length);
    return this.compute(request, table, Math.max(until, request.computed));
  }

  // It has its blocks, and waits for what comes from the host: until then it does nothing else.
  beginToLoad(request, table, found, external, until) {
    const local = found[0].length * this.size;
    this.host.beginLoad(request, table, this.asTold(table), { local, external, until });
    this.tell("lookup", request.name, local, external, request.tokens.length - 1);
    this.tell("found", request.name, found, local);
    this.tellTable(request, table);
    return true;
  }

  // One of the loads under way ends. What of it has failed is computed by later steps. With groups none fails: what a
  // window has at one length of a hit it does not have at a shorter one.
  loaded({ pick, failed }) {
    if (!this.host?.loads.size) return undefined;
    const { groups } = this.Adapter, [load, came] = this.host.endLoad(pick, groups ? 0 : failed), { request } = load;
    request.computed = load.local + (groups ? load.external : came * this.size);
    this.adapter.loaded(request, request.computed);
    this.running.set(request.name, request);
    if (load.isAborted) this.letGo(request);
    else if (request.computed === load.local + load.external) {
      this.compute(request, load.table, Math.max(load.until, request.computed));
    }
    return null;
  }

  step({ request: name, most }) {
    const request = this.running.get(name);
    if (!request || request.computed >= request.tokens.length) return undefined;
    const until = Math.min(request.tokens.length, request.computed + (most || Infinity));
    const table = this.allocate(request, until);
    return table !== null && this.compute(request, table, until);
  }

  grow({ request: name, tokens }) {
    const request = this.running.get(name);
    if (!request || request.computed < request.tokens.length) return undefined;
    const before = request.tokens.length;
    request.tokens.push(...tokens);
    const table = this.allocate(request, request.tokens.length);
    if (table === null) return (request.tokens.length = before) < 0;
    this.tell("append", name, tokens);
    this.tellKeys(request);
    return this.compute(request, table, request.tokens.length);
  }

  // Another request goes on where one is, with all that it has.
  fork({ request: name, child: childName }) {
    const request = this.running.get(name);
    if (!request || request.computed < request.tokens.length || this.requests.has(childName)) return undefined;
    const child = { ...request, name: childName, tokens: [...request.tokens], table: [], found: [], told: 0 };
    const told = this.adapter.fork(request, child);
    this.tellCopies();
    if (told === null) return false;
    for (const requests of [this.requests, this.running]) requests.set(childName, child);
    const table = this.read(told);
    this.tell("request", childName, { tokens: [...child.tokens], fork: name });
    this.tellKeys(child);
    this.tellTable(child, table);
    this.tell("found", childName, this.first(table, child.computed), child.computed);
    this.tell("processed", childName, child.computed);
    return true;
  }

  // The whole table of a request, of each group, with room for so many tokens; null: there is none.
  allocate(request, tokens) {
    const told = this.adapter.allocate(request, tokens);
    this.tellCopies();
    return told === null ? null : this.read(told);
  }

  // A store that is under way is done, and what of these requests' blocks is worth it is copied to the host.
  mirror({ requests }) {
    if (!this.host) return undefined;
    this.host.endStore(requests.length);
    this.host.beginStores(requests.map((name) => this.running.get(name)).filter(Boolean));
    return null;
  }

  // What is to be copied within the device, before anything more is computed.
  tellCopies() {
    tellCopied(this.tell.bind(this), "device", "device", this.adapter.takeCopies?.() ?? []);
  }

  tellTable(request, table) {
    request.table = this.asTold(table);
    table.forEach((blocks, group) => this.tell("table", request.name, group, 0, [...blocks]));
  }

  compute(request, table, until) {
    const start = request.computed;
    this.tellTable(request, table);
    if (start < until) this.tell("compute", request.name, start, request.tokens.slice(start, until));
    request.computed = until;
    this.process(request, until, start);
    return true;
  }

  // The manager hears what was computed, and stores of it what it likes.
  process(request, until) {
    this.adapter.commit(request, until);
    this.tell("processed", request.name, until);
    if (this.host?.storesTakeTime) this.host.beginStores([request]);
  }

  // The tokens themselves stand for hash keys.
  tellKeys(request) {
    const keys = [];
    for (let end = this.size; end <= request.tokens.length; end += this.size) {
      keys.push(this.number(keyOf(request.tokens.slice(0, end))));
    }
    if (keys.length > request.told) this.tell("keys", request.name, request.told, keys.slice(request.told));
    request.told = keys.length;
  }

  number(key) {
    if (!this.numbers.has(key)) this.numbers.set(key, this.numbers.size);
    return this.numbers.get(key);
  }

  // Of each group the blocks of so many first tokens.
  first(table, tokens) {
    return table.map((blocks) => blocks.slice(0, Math.ceil(tokens / this.size)));
  }

  letGo(request) {
    this.adapter.free(request);
    this.running.delete(request.name);
    Object.assign(request, { table: [], found: [], onHost: [], computed: 0 });
  }

  finish({ request: name }, how = "finished") {
    const request = this.running.get(name);
    if (!request) return undefined;
    this.letGo(request);
    this.requests.delete(name);
    this.tell("end", name, how);
    return null;
  }

  // Who waits for a load is over at once, and has its blocks until nobody writes to them any more.
  abort({ request: name }) {
    if (this.running.has(name)) return this.finish({ request: name }, "aborted");
    if (!this.requests.delete(name)) return undefined;
    if (this.host?.loads.has(name)) this.host.loads.get(name).isAborted = true;
    this.tell("end", name, "aborted");
    return null;
  }

  preempt({ request: name }) {
    const request = this.running.get(name);
    if (!request) return undefined;
    this.letGo(request);
    this.tell("preempted", name);
    return null;
  }

  // In the end nothing is under way any more.
  drain() {
    let steps = 0;
    this.comeToRest();
    for (const name of [...this.running.keys()]) steps += this.finish({ request: name }) === null;
    for (const name of [...this.requests.keys()]) {
      this.comeToRest();
      if (!this.resume({ request: name })) continue;
      this.comeToRest();
      steps += 1 + (this.finish({ request: name }) === null);
    }
    this.comeToRest();
    return { left: this.requests.size, pending: this.host?.pending ?? 0, steps };
  }

  comeToRest() {
    while (this.loaded({ pick: 0, failed: 0 }) === null);
    this.host?.endStores();
  }

  // What a manager tells of a pool: `cached` by the name of each key (`keyOf`), with groups `[name, group]`.
  pool(tier) {
    const told = fieldsOf(this.Adapter, tier).map((field) => [field, this.adapter[SHOWN[tier][field]]()]);
    const read = { cached: (entries) => this.entries(entries), num_free: (number) => number };
    return Object.fromEntries(told.map(([field, what]) => [field, (read[field] ?? Array.from)(what)]));
  }

  entries(cached) {
    const named = [...cached].map(([key, block]) => [...this.entry(key), [block]]);
    return named.sort(([a, g], [b, h]) => a - b || g - h);
  }

  state() {
    const those = [...this.running.values(), ...(this.host?.waiting ?? []).map(({ request }) => request)];
    // A manager may give up what lies behind a window though it refuses what it was asked for: then it has `table`.
    const tableOf = (request) => this.read(this.adapter.table?.(request) ?? request.table);
    const tables = Object.fromEntries(those.map((request) => [request.name, tableOf(request)]));
    const [running, pending] = [those.length, this.host?.pending ?? 0];
    const counts = { waiting: this.requests.size - running, running, pending };
    const device = this.pool("device");
    if (!this.host) return { pools: { device }, tables, ...counts };
    return { pools: { device, host: this.pool("host") }, tables, holds: this.host.holds(), ...counts };
  }
}

// The name of the tokens up to the end of a block, by which `hostCached` tells the host's map: key to host block.
const keyOf = (tokens) => tokens.join();

module.exports = { Refused, System, fieldsOf, has, keyOf, operationsOf };
