"use strict";
// Forward passes that are more than one request's, or whose result nobody waits for: between `allocate` and `commit` of
// one request comes another one's `allocate`, or its own `free`. It is the same for every manager. Copy it beside yours.

const { System } = require("./scheduler.js");

class BatchingSystem extends System {
  begun = []; // What the next batch is made of.
  passing = null; // Who is in the forward pass that is put together, and up to where that computes; null: there is none.
  isCutting = false; // Whether nobody waits for the result of the next one.

  begin(args) {
    this.begun.push(args);
    return null;
  }

  // What was begun shares a forward pass; what else is asked of a request that is in it is left out.
  batch() {
    const came = {}, passing = new Map();
    this.passing = passing;
    for (const { op, ...args } of this.begun.splice(0)) {
      const result = passing.has(args.request) ? undefined : this[op](args);
      if (result !== undefined) came[`${op} ${args.request}`] = result;
    }
    this.passing = null;
    for (const [name, until] of passing) this.process(this.running.get(name), until);
    return Object.keys(came).length ? came : undefined;
  }

  // A request is admitted or goes on, and gives up its blocks before the result is there.
  cut({ request: name, tokens }) {
    const waits = this.requests.has(name) && !this.running.has(name);
    if (waits && this.host) return undefined; // What a load brings may be registered by `commit`, which does not come.
    this.isCutting = true;
    try {
      if (waits) return this.resume({ request: name });
      return this.grow({ request: name, tokens }) ?? this.step({ request: name, most: tokens.length });
    } finally {
      this.isCutting = false;
    }
  }

  process(request, until, before) {
    if (this.isCutting) {
      request.computed = before;
      this.preempt({ request: request.name });
    } else if (this.passing) this.passing.set(request.name, until);
    else super.process(request, until);
  }
}

module.exports = { BatchingSystem };
