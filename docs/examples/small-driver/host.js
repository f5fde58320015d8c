"use strict";
// The host tier of a block manager: what it stores and loads there, told as copies. A manager with `stored` takes time
// for its stores, one with `loaded` for its loads; else they are done when they are told. Copy it beside yours.

class HostSide {
  constructor(adapter, tell) {
    Object.assign(this, { adapter, tell, jobs: new Map(), loads: new Map(), copies: 0 });
  }

  get storesTakeTime() {
    return Boolean(this.adapter.stored);
  }

  get loadsTakeTime() {
    return Boolean(this.adapter.loaded);
  }

  // The manager stores what it likes of these requests' blocks: pairs, or jobs with their pairs where that takes time.
  beginStores(requests) {
    const told = this.adapter.store(requests);
    if (!this.storesTakeTime) return tellCopied(this.tell, "device", "host", told);
    for (const [job, pairs] of told) {
      this.jobs.set(this.copies, { job, pairs: [...pairs] });
      this.tell("copy", this.copies++, "begin", places("device", "host", pairs));
    }
  }

  // One of the stores under way is done: they may end in any order.
  endStore(pick) {
    if (!this.jobs.size) return;
    const id = [...this.jobs.keys()][pick % this.jobs.size], { job, pairs } = this.jobs.get(id);
    this.jobs.delete(id);
    this.tell("copy", id, "end", places("device", "host", pairs));
    this.adapter.stored(job);
  }

  endStores() {
    while (this.jobs.size) this.endStore(0);
  }

  // What was found is copied into this table, in the manager's own form, before anything is computed there.
  load(request, told) {
    tellCopied(this.tell, "host", "device", this.adapter.load(request, told));
  }

  // The same begins now, and the request waits for it. Each of its copies may fail.
  beginLoad(request, table, told, about) {
    const pairs = [...this.adapter.load(request, told)], first = this.copies;
    this.copies += pairs.length;
    pairs.forEach((pair, n) => this.tell("copy", first + n, "begin", places("host", "device", [pair])));
    this.loads.set(request.name, { request, table, pairs, first, isAborted: false, ...about });
  }

  // One of these is over, and so many of its last copies have failed: the load, and how many of its blocks came.
  endLoad(pick, failed) {
    const load = [...this.loads.values()][pick % this.loads.size];
    this.loads.delete(load.request.name);
    const came = Math.max(0, load.pairs.length - failed);
    load.pairs.forEach((pair, n) => {
      this.tell("copy", load.first + n, n < came ? "end" : "fail", places("host", "device", [pair]));
    });
    return [load, came];
  }

  get pending() {
    return this.jobs.size + this.loads.size;
  }

  // Who waits for a load, and is not over.
  get waiting() {
    return [...this.loads.values()].filter((load) => !load.isAborted);
  }

  // The blocks that copies read and write; what a request has that was aborted meanwhile is its load's.
  holds() {
    const loads = [...this.loads.values()], stored = [...this.jobs.values()].flatMap(({ pairs }) => pairs);
    const left = loads.flatMap(({ isAborted, table }) => (isAborted ? table.flat() : []));
    const read = loads.flatMap(({ pairs }) => pairs.map(([from]) => from));
    const { nullBlock } = this.adapter.constructor;
    return {
      device: [...stored.map(([from]) => from), ...left.filter((block) => block !== nullBlock)],
      host: [...stored.map(([, to]) => to), ...read],
    };
  }
}

const places = (from, to, pairs) => pairs.map(([a, b]) => [from, a, to, b]);

function tellCopied(tell, from, to, pairs) {
  if (pairs.length) tell("copied", places(from, to, pairs));
}

module.exports = { HostSide, tellCopied };
