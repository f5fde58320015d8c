"use strict";
// The worker protocol (docs/protocol.md) on standard input and output: serve(Adapter) starts it. It is the same for
// every manager, as are scheduler.js, batch.js and host.js; driver.js says how one is called. Copy these four beside
// yours.

const { createHash } = require("node:crypto");
const { createInterface } = require("node:readline");
const { BatchingSystem } = require("./batch.js");
const { Refused, fieldsOf, has, keyOf, operationsOf } = require("./scheduler.js");

let kept = null; // The system that a message with "keep" left behind.

function answer(Adapter, message, say) {
  let system = kept;
  kept = null;
  if (!("more" in message)) {
    if (message.level !== "requests") return { refused: `there is no level ${message.level}` };
    try {
      system = new BatchingSystem(Adapter, message.setup);
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
  const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
  const tiers = has(Adapter, "store") ? ["device", "host"] : ["device"];
  const visible = Object.fromEntries(tiers.map((tier) => [tier, fieldsOf(Adapter, tier)]));
  const options = has(Adapter, "store") ? ["host_blocks"] : [];
  const can = { operations: operationsOf(Adapter), options, visible, tokens_per_grow: 3 };
  const { name: engine, version = "unversioned" } = Adapter;
  say({ hello: { protocol: 1, engine, version, levels: ["requests"], capabilities: { requests: can } } });
  createInterface({ input: process.stdin }).on("line", (line) => {
    const message = JSON.parse(line);
    say({ id: message.id, ...answer(Adapter, message, say) });
  });
}

module.exports = { keyOf, serve };
