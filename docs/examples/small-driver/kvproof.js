"use strict";
// The kit's scheduler for block managers in JavaScript: serve(Adapter) speaks the worker protocol (docs/protocol.md).
// It is the same for every manager; driver.js says how one is called. Copy it beside yours.

const { createHash } = require("node:crypto");
const { createInterface } = require("node:readline");

const OPERATIONS = ["start", "resume", "step", "grow", "fork", "finish", "abort", "preempt", "mirror", "drain"];
const NEEDS = { fork: "fork", mirror: "store" };
const SHOWN = { ref: "refCounts", free: "freeQueue" };

const operationsOf = (Adapter) => OPERATIONS.filter((name) => !NEEDS[name] || Adapter.prototype[NEEDS[name]]);

class Refused extends Error {}

class System {
  constructor(Adapter, { blocks, block_tokens: size, host_blocks: host = 0, ...unknown }) {
    if (Object.keys(unknown).length) throw new Refused(`there is no option ${Object.keys(unknown)[0]}`);
    if (!(Number.isInteger(host) && host >= 0)) throw new Refused("host_blocks must be a number");
    if (host && !Adapter.prototype.store) throw new Refused("there is no option host_blocks");
    for (const [name, value] of [["blocks", blocks], ["block_tokens", size]]) {
      if (!(Number.isInteger(value) && value > 0)) throw new Refused(`${name} must be a number above 0`);
    }
    Object.assign(this, { size, host, requests: new Map(), running: new Map(), effects: [], numbers: new Map() });
    this.adapter = new Adapter(blocks, size, host);
    const tiers = { device: { blocks }, ...(host ? { host: { blocks: host } } : {}) };
    this.world = {
      groups: [{ kind: "full", block: size }], tiers, hash_block: size, exact: true,
      notes: { dialect: Adapter.dialect ?? { keep: "all" }, keys: "tokens" },
    };
  }

  tell(...effect) {
    this.effects.push(effect);
  }

  // Each operation returns its result, or undefined where there was nothing to do it to.

  start({ request: name, prompt, most }) {
    if (this.requests.has(name)) return undefined;
    const request = { name, tokens: [...prompt], table: [], found: [], onHost: [], computed: 0, told: 0 };
    this.requests.set(name, request);
    this.tell("request", name, { tokens: prompt });
    return this.admit(request, most);
  }

  resume({ request: name }) {
    const request = this.requests.get(name);
    return request && !this.running.has(name) ? this.admit(request) : undefined;
  }

  admit(request, most) {
    this.tellKeys(request);
    request.found = this.adapter.lookup(request);
    request.onHost = this.host ? this.adapter.hostLookup(request) : [];
    const local = request.found.length * this.size, external = request.onHost.length * this.size;
    const cached = local + external;
    const until = Math.min(request.tokens.length, cached + (most || Infinity));
    const table = this.allocate(request, until);
    if (table === null) return false;
    if (external) this.tellPairs("host", "device", this.adapter.load(request, [...table]));
    const found = external ? table.slice(0, cached / this.size) : [...request.found];
    this.running.set(request.name, request);
    this.tell("lookup", request.name, local, external, request.tokens.length - 1);
    this.tell("found", request.name, [found], cached);
    request.computed = Math.min(cached, request.tokens.length);
    return this.compute(request, table, Math.max(until, request.computed));
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
    const table = this.adapter.fork(request, child);
    this.tellCopies();
    if (table === null) return false;
    for (const requests of [this.requests, this.running]) requests.set(childName, child);
    child.table = [...table];
    this.tell("request", childName, { tokens: [...child.tokens], fork: name });
    this.tellKeys(child);
    this.tell("table", childName, 0, 0, child.table);
    this.tell("found", childName, [child.table.slice(0, Math.ceil(child.computed / this.size))], child.computed);
    this.tell("processed", childName, child.computed);
    return true;
  }

  allocate(request, tokens) {
    const table = this.adapter.allocate(request, tokens);
    this.tellCopies();
    return table;
  }

  // What of these requests' blocks is worth it is copied to the host.
  mirror({ requests }) {
    if (!this.host) return undefined;
    const those = requests.map((name) => this.running.get(name)).filter(Boolean);
    this.tellPairs("device", "host", this.adapter.store(those));
    return null;
  }

  // What is to be copied within the device, before anything more is computed.
  tellCopies() {
    this.tellPairs("device", "device", this.adapter.takeCopies?.() ?? []);
  }

  tellPairs(from, to, pairs) {
    if (pairs.length) this.tell("copied", pairs.map(([a, b]) => [from, a, to, b]));
  }

  compute(request, table, until) {
    const start = request.computed;
    request.table = [...table];
    this.tell("table", request.name, 0, 0, [...table]);
    if (start < until) this.tell("compute", request.name, start, request.tokens.slice(start, until));
    request.computed = until;
    this.adapter.commit(request, until);
    this.tell("processed", request.name, until);
    return true;
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

  abort({ request: name }) {
    if (this.running.has(name)) return this.finish({ request: name }, "aborted");
    if (!this.requests.delete(name)) return undefined;
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

  drain() {
    let steps = 0;
    for (const name of [...this.running.keys()]) steps += this.finish({ request: name }) === null;
    for (const name of [...this.requests.keys()]) {
      if (this.resume({ request: name })) steps += 1 + (this.finish({ request: name }) === null);
    }
    return { left: this.requests.size, pending: 0, steps };
  }

  onHost() {
    const entries = [...(this.adapter.hostCached?.() ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
    return this.adapter.hostCached ? { cached: entries.map(([key, block]) => [this.number(key), 0, [block]]) } : {};
  }

  state() {
    const shown = Object.entries(SHOWN).filter(([, method]) => this.adapter[method]);
    const device = Object.fromEntries(shown.map(([field, method]) => [field, [...this.adapter[method]()]]));
    const tables = Object.fromEntries([...this.running].map(([name, request]) => [name, [request.table]]));
    const running = this.running.size;
    const pools = this.host ? { device, host: this.onHost() } : { device };
    return { pools, tables, waiting: this.requests.size - running, running, pending: 0 };
  }
}

// The name of the tokens up to the end of a block, by which `hostCached` tells the host's map: key to host block.
const keyOf = (tokens) => tokens.join();

let kept = null; // The system that a message with "keep" left behind.

function answer(Adapter, message, say) {
  let system = kept;
  kept = null;
  if (!("more" in message)) {
    if (message.level !== "requests") return { refused: `there is no level ${message.level}` };
    try {
      system = new System(Adapter, message.setup);
    } catch (error) {
      if (error instanceof Refused) return { refused: error.message };
      return { steps: [{ op: "setup", args: message.setup, error: told(error) }] };
    }
  } else if (system === null) return { refused: "no system was kept" };
  const steps = [];
  for (const [op, args] of message.more ?? message.ops) {
    steps.push(operate(system, op, args, message, steps.length));
    if (message.stream) say({ step: steps.at(-1) });
    if (steps.at(-1).error) return "more" in message ? { steps } : { world: system.world, steps };
  }
  if (message.keep || "more" in message) kept = system;
  return "more" in message ? { steps } : { world: system.world, steps };
}

function operate(system, op, args, { snapshots = "full", full_at: fullAt = [] }, number) {
  const step = { op, args };
  try {
    if (!operationsOf(system.adapter.constructor).includes(op)) throw new Error(`there is no operation ${op}`);
    const result = system[op](args);
    if (result === undefined) step.skipped = true;
    else step.result = result;
    if (snapshots === "full" || fullAt.includes(number)) step.state = system.state();
    else if (snapshots === "digest") {
      step.digest = createHash("sha256").update(JSON.stringify(system.state())).digest("hex").slice(0, 16);
    }
  } catch (error) {
    step.error = told(error);
  }
  step.effects = system.effects;
  system.effects = [];
  return step;
}

// An exception as plain data: the outermost call first, files by their names.
function told(error) {
  const calls = [...(error.stack ?? "").matchAll(/at (?:new )?(\S+) \((?:.*[\\/])?([^\\/]+):(\d+):\d+\)/g)];
  const where = calls.map(([, name, file, line]) => [file, Number(line), name]).reverse();
  return { type: error.name, message: error.message, where };
}

function serve(Adapter) {
  const visible = Object.keys(SHOWN).filter((field) => Adapter.prototype[SHOWN[field]]);
  const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
  const shown = { device: visible, ...(Adapter.prototype.hostCached ? { host: ["cached"] } : {}) };
  const options = Adapter.prototype.store ? ["host_blocks"] : [];
  const can = { operations: operationsOf(Adapter), options, visible: shown, tokens_per_grow: 3 };
  const { name: engine, version = "unversioned" } = Adapter;
  say({ hello: { protocol: 1, engine, version, levels: ["requests"], capabilities: { requests: can } } });
  createInterface({ input: process.stdin }).on("line", (line) => {
    const message = JSON.parse(line);
    say({ id: message.id, ...answer(Adapter, message, say) });
  });
}

module.exports = { keyOf, serve };
