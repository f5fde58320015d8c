"use strict";
// A driver: it lets kvproof drive the block manager in manager.js, and tells what happens (docs/protocol.md).
//
//     kvproof protocol-check "exec:node docs/examples/mirror-driver/driver.js"
//     kvproof fuzz "exec:node docs/examples/mirror-driver/driver.js"
//     kvproof fuzz "exec:node docs/examples/mirror-driver/driver.js --fault stale-claim"

const { createHash } = require("node:crypto");
const { createInterface } = require("node:readline");
const { Manager } = require("./manager.js");

const OPERATIONS = [
  "start", "resume", "step", "grow", "finish", "abort", "preempt", "mirror", "evict", "reset", "drain",
];
const HELLO = {
  protocol: 1,
  engine: "mirror-example",
  version: "1.0",
  levels: ["requests"],
  capabilities: {
    requests: {
      operations: OPERATIONS,
      options: ["host_blocks", "caching"],
      tenants: ["salt"],
      // The host is a map from hashes: no counts, no queue, no numbers of blocks.
      visible: { device: ["ref", "free", "num_free", "cached", "hashes"], host: ["cached"] },
      tokens_per_grow: 3,
    },
  },
};

class Refused extends Error {}

// One system: made from a setup, driven by operations, forgotten.
class System {
  constructor(setup, fault) {
    const { blocks, block_tokens, host_blocks = 0, caching = true, ...unknown } = setup;
    if (Object.keys(unknown).length) throw new Refused(`there is no option ${Object.keys(unknown)[0]}`);
    if (!(Number.isInteger(blocks) && blocks > 0)) throw new Refused("blocks must be a number above 0");
    if (!(Number.isInteger(block_tokens) && block_tokens > 0)) throw new Refused("block_tokens must be a number above 0");
    if (!(Number.isInteger(host_blocks) && host_blocks >= 0)) throw new Refused("host_blocks must be a number");
    this.blockTokens = block_tokens;
    this.numbers = new Map(); // Hashes by number, in the order in which they are met.
    this.requests = new Map(); // All that have not ended, waiting or running.
    this.effects = [];
    this.copies = [];
    this.manager = new Manager({
      blocks, hostBlocks: host_blocks, blockTokens: block_tokens, caching, fault,
      // The host has no numbers of its own: an entry's place is the number of its key ("by_key").
      onCopy: (from, to, hash, block) => {
        const key = this.number(hash);
        this.copies.push(from === "device" ? [from, block, to, key] : [from, key, to, block]);
      },
    });
    const tiers = { device: { blocks } };
    if (host_blocks) tiers.host = { blocks: host_blocks, by_key: true };
    this.hasHost = host_blocks > 0;
    const dialect = {
      take: "head", free: "append", keep: caching ? "all" : "none", ...(host_blocks ? { host: "mirror" } : {}),
    };
    this.world = {
      groups: [{ kind: "full", block: block_tokens }], tiers, hash_block: block_tokens, exact: true, notes: { dialect },
    };
  }

  number(hash) {
    if (!this.numbers.has(hash)) this.numbers.set(hash, this.numbers.size);
    return this.numbers.get(hash);
  }

  tell(...effect) {
    this.effects.push(effect);
  }

  tellCopies() {
    if (this.copies.length) this.tell("copied", this.copies);
    this.copies = [];
  }

  // --------------------------------------------------------------------------------------------------------- operations
  // Each returns its result, or undefined where there was nothing to do it to.

  start({ request: name, prompt, most, salt }) {
    if (this.requests.has(name)) return undefined;
    const request = { name, tokens: [...prompt], salt, table: [], computed: 0, told: 0 };
    this.requests.set(name, request);
    this.tell("request", name, { tokens: prompt, salt: salt ?? null });
    return this.admit(request, most);
  }

  resume({ request: name }) {
    const request = this.requests.get(name);
    return request && !this.manager.running.has(name) ? this.admit(request) : undefined;
  }

  admit(request, most) {
    this.tellKeys(request);
    const admitted = this.manager.admit(request, most || Infinity);
    this.tellCopies();
    if (!admitted) return false;
    const { local, until, prefix } = admitted;
    this.tell("lookup", request.name, local, request.computed - local, request.tokens.length - 1);
    this.tell("found", request.name, [prefix], request.computed);
    this.tell("table", request.name, 0, 0, [...request.table]);
    this.compute(request, until);
    return true;
  }

  step({ request: name, most }) {
    const request = this.manager.running.get(name);
    if (!request || request.computed === request.tokens.length) return undefined;
    return this.advance(request, Math.min(request.tokens.length, request.computed + (most || Infinity)));
  }

  grow({ request: name, tokens }) {
    const request = this.manager.running.get(name);
    if (!request || request.computed < request.tokens.length) return undefined;
    const until = request.tokens.length + tokens.length;
    if (!this.manager.extend(request, until)) return false;
    request.tokens.push(...tokens);
    this.tell("append", name, tokens);
    this.tellKeys(request);
    return this.advance(request, until);
  }

  advance(request, until) {
    if (!this.manager.extend(request, until)) return false;
    this.tell("table", request.name, 0, 0, [...request.table]);
    this.compute(request, until);
    return true;
  }

  compute(request, until) {
    const start = request.computed;
    if (start < until) this.tell("compute", request.name, start, request.tokens.slice(start, until));
    this.manager.computed(request, until);
    this.tell("processed", request.name, until);
  }

  tellKeys(request) {
    const keys = this.manager.hashes(request).map((hash) => this.number(hash));
    if (keys.length > request.told) this.tell("keys", request.name, request.told, keys.slice(request.told));
    request.told = keys.length;
  }

  finish({ request: name }, how = "finished") {
    const request = this.manager.running.get(name);
    if (!request) return undefined;
    this.manager.end(request);
    this.requests.delete(name);
    this.tell("end", name, how);
    return null;
  }

  abort({ request: name }) {
    if (this.manager.running.has(name)) return this.finish({ request: name }, "aborted");
    if (!this.requests.delete(name)) return undefined;
    this.tell("end", name, "aborted");
    return null;
  }

  preempt({ request: name }) {
    const request = this.manager.running.get(name);
    if (!request) return undefined;
    this.manager.end(request, true);
    this.tell("preempted", name);
    return null;
  }

  mirror({ requests }) {
    if (!this.hasHost) return undefined;
    this.manager.mirror(requests.map((name) => this.manager.running.get(name)).filter(Boolean));
    return null;
  }

  evict({ block }) {
    if (block >= this.manager.ref.length) return undefined;
    this.manager.evict(block);
    return null;
  }

  reset() {
    return this.manager.reset();
  }

  // Finish what runs, then admit what waits, the oldest first, and finish that.
  drain() {
    let steps = 0;
    for (const name of [...this.manager.running.keys()]) steps += this.finish({ request: name }) === null;
    for (const name of [...this.requests.keys()]) {
      if (this.resume({ request: name })) steps += 1 + (this.finish({ request: name }) === null);
    }
    return { left: this.requests.size, pending: 0, steps };
  }

  // ----------------------------------------------------------------------------------------------------------- the state

  state() {
    const { ref, free, device, hashOf, host, running } = this.manager;
    const pools = {
      device: {
        ref: [...ref],
        free: [...free],
        num_free: free.length,
        cached: [...device].map(([hash, blocks]) => [this.number(hash), 0, [...blocks]]),
        hashes: hashOf.flatMap((hash, block) => (hash === null ? [] : [[block, [[this.number(hash), 0]]]])),
      },
    };
    if (this.hasHost) {
      pools.host = { cached: [...host.keys()].map((hash) => [this.number(hash), 0, [this.number(hash)]]) };
    }
    const tables = Object.fromEntries([...running].map(([name, request]) => [name, [[...request.table]]]));
    return { pools, tables, waiting: this.requests.size - running.size, running: running.size, pending: 0 };
  }
}

// ------------------------------------------------------------------------------------------------------------- the protocol

let kept = null; // The system that a message with "keep" left behind.

function answer(message, fault, say) {
  let system = kept;
  kept = null;
  if (!("more" in message)) {
    if (message.level !== "requests") return { refused: `there is no level ${message.level}` };
    try {
      system = new System(message.setup, fault);
    } catch (error) {
      if (error instanceof Refused) return { refused: error.message };
      return { steps: [{ op: "setup", args: message.setup, error: told(error) }] };
    }
  } else if (system === null) return { refused: "no system was kept" };
  const steps = [];
  const { well } = operate(system, message, steps, say);
  if (well && (message.keep || "more" in message)) kept = system;
  return "more" in message ? { steps } : { world: system.world, steps };
}

function operate(system, message, steps, say) {
  const { snapshots = "full", full_at: fullAt = [] } = message;
  for (const [op, args] of message.more ?? message.ops) {
    const step = { op, args };
    steps.push(step);
    try {
      if (!OPERATIONS.includes(op)) throw new Error(`there is no operation ${op}`);
      const result = system[op](args);
      system.tellCopies();
      if (result === undefined) step.skipped = true;
      else step.result = result;
    } catch (error) {
      step.error = told(error);
    }
    step.effects = system.effects;
    system.effects = [];
    if (!step.error) {
      if (snapshots === "full" || fullAt.includes(steps.length - 1)) step.state = system.state();
      else if (snapshots === "digest") {
        step.digest = createHash("sha256").update(JSON.stringify(system.state())).digest("hex").slice(0, 16);
      }
    }
    if (message.stream) say({ step });
    if (step.error) return { well: false };
  }
  return { well: true };
}

// An exception as plain data: the outermost call first, files by their names.
function told(error) {
  const calls = [...(error.stack ?? "").matchAll(/at (?:new )?(\S+) \((?:.*[\\/])?([^\\/]+):(\d+):\d+\)/g)];
  const where = calls.map(([, name, file, line]) => [file, Number(line), name]).reverse();
  return { type: error.name, message: error.message, where };
}

function main() {
  const at = process.argv.indexOf("--fault");
  const fault = at < 0 ? "" : process.argv[at + 1];
  const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
  say({ hello: HELLO });
  createInterface({ input: process.stdin }).on("line", (line) => {
    const message = JSON.parse(line);
    say({ id: message.id, ...answer(message, fault, say) });
  });
}

main();
