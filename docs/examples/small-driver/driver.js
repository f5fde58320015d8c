"use strict";
// How kvproof drives the pool: five calls, and two looks at its state.
//
//     kvproof fuzz "exec:node docs/examples/small-driver/driver.js"
//     kvproof fuzz "exec:node docs/examples/small-driver/driver.js no-touch"

const { serve } = require("./kvproof.js");
const { Pool } = require("./pool.js");

class SmallPool {
  static dialect = { keep: "all", take: "head", free: "append" };

  constructor(blocks, blockTokens) {
    this.pool = new Pool(blocks, blockTokens, process.argv[2]);
  }

  lookup(request) {
    return this.pool.lookup(request.tokens);
  }

  allocate(request, tokens) {
    return this.pool.allocate(request.name, request.found, tokens);
  }

  commit(request, tokens) {
    this.pool.register(request.name, request.tokens.slice(0, tokens));
  }

  free(request) {
    this.pool.release(request.name);
  }

  refCounts() {
    return this.pool.ref;
  }

  freeQueue() {
    return this.pool.free;
  }
}

serve(SmallPool);
