// A remote worker in one file: it runs the workflows below over the worker's protocol (docs/protocol.md).
// node worker.mjs URL [NAME] — environment: GOLDSEAM_KEY, GOLDSEAM_LEASE_MS
import { randomUUID } from "node:crypto";

const [url, name = `worker-${process.pid}`] = process.argv.slice(2);
const lease_ms = Number(process.env.GOLDSEAM_LEASE_MS ?? 1500);
const headers = { "content-type": "application/json" };
if (process.env.GOLDSEAM_KEY) headers.authorization = `Bearer ${process.env.GOLDSEAM_KEY}`;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function post(path, body) {
  for (let tries = 0; ; tries++) {
    try {
      const response = await fetch(url + path, { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) });
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      const problem = JSON.parse(text);
      throw Object.assign(new Error(problem.detail), { code: problem.code, status: response.status });
    } catch (error) {
      if (error.status && error.status < 500 && error.status !== 429) throw error;
      if (tries > 200) throw error;
      await sleep(100);
    }
  }
}

class Stop extends Error {}
class Failed extends Error {
  constructor(failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** One execution: replays its history, then appends. */
class Execution {
  constructor(given) {
    Object.assign(this, given);
    this.ops = new Map();
    this.add(given.events);
  }
  add(events) {
    for (const { seq, event } of events) {
      const data = event.data ?? {};
      const path = data.path ?? data.question;
      if (path) this.ops.set(path, { ...this.ops.get(path), [event.type]: { ...data, seq } });
      this.ops.set(seq, data);
      if (event.type === "run.cancel_requested") this.isCancelled = true;
    }
  }
  async append(...doings) {
    const done = await post("/v1/executions/append", { token: this.token, id: randomUUID(), after: this.end, doings });
    this.add(done.events);
    this.end = done.end;
    if (done.outcome === "over" || done.outcome === "continued") throw new Stop();
    if (done.outcome === "again") throw new Stop("again");
    return done;
  }
}

class Context {
  constructor(execution) {
    this.execution = execution;
    this.ord = 0;
    this.counts = new Map();
  }
  place(called) {
    const n = (this.counts.get(called) ?? 0) + 1;
    this.counts.set(called, n);
    return { path: n > 1 ? `${called}#${n}` : called, ord: this.ord++ };
  }
  async step(called, work, options = {}) {
    const { path, ord } = this.place(called);
    const { execution } = this;
    for (;;) {
      const op = execution.ops.get(path) ?? {};
      if (op["step.completed"]) return op["step.completed"].output;
      const failed = op["step.failed"];
      const again = op["step.retry_scheduled"];
      if (failed && !(again && again.seq > failed.seq)) throw new Failed(failed.failure);
      if (again) {
        if (again.due - Date.now() > 60_000) await execution.append({ release: { reason: "unload" } });
        await sleep(Math.max(0, again.due - Date.now()));
      }
      const attempt = Math.max(0, op["step.started"]?.attempt ?? 0, failed?.attempt ?? 0) + (op["step.started"] && !failed ? 0 : 1);
      const began = Date.now();
      if (options.long && !op["step.started"]) await execution.append({ step_started: { path, ord, attempt } });
      try {
        const output = (await work(attempt)) ?? null;
        await execution.append({ step_completed: { path, ord, attempt, output, took_ms: Date.now() - began, ...(options.undo ? { undo: true } : {}) } });
      } catch (error) {
        if (error instanceof Stop) throw error;
        const failure = { class: options.retry ? "retryable" : "terminal", message: error.message };
        await execution.append({ step_failed: { path, ord, attempt, failure, took_ms: Date.now() - began, ...(options.retry ? { retry: options.retry } : {}) } });
      }
    }
  }
  async wait(called, what) {
    const { path, ord } = this.place(called);
    const { execution } = this;
    const resolved = () => execution.ops.get(path)?.["wait.resolved"];
    if (!resolved()) {
      const open = execution.ops.get(path)?.["wait.started"];
      await execution.append(open ? { check: { path } } : { wait: { path, ord, ...what } }, { release: { reason: "unload" } });
    }
    const by = resolved()?.by;
    const mail = by?.mail ? execution.ops.get(by.mail) : undefined;
    return mail?.answer ?? mail?.payload ?? null;
  }
  /** Starts a child, and waits for its end. */
  async child(called, workflow, input) {
    const { path, ord } = this.place(called);
    const { execution } = this;
    const op = () => execution.ops.get(path) ?? {};
    if (!op()["child.started"]) await execution.append({ child: { path, ord, workflow, input } });
    if (!op()["wait.resolved"]) {
      const { run } = op()["child.started"];
      await execution.append(op()["wait.started"] ? { check: { path } } : { wait: { path, ord, children: [run] } }, { release: { reason: "unload" } });
    }
    const mail = execution.ops.get(op()["wait.resolved"].by.mail);
    return mail.output ?? null;
  }
  /** A step that a worker of a queue executes as a task. */
  async remote(called, queue, payload) {
    const { path, ord } = this.place(called);
    const { execution } = this;
    const op = () => execution.ops.get(path) ?? {};
    if (!op()["step.started"]) await execution.append({ step_handed_out: { path, ord, attempt: 1, payload, queue, silence_ms: 60_000, retry: { attempts_max: 3, initial_ms: 1000, factor_permille: 2000, pause_max_ms: 60_000, jitter_permille: 0 } } });
    if (op()["step.completed"]) return op()["step.completed"].output;
    await execution.append({ release: { reason: "unload" } });
    return null;
  }
  ask(called, prompt, form) {
    return this.wait(called, { ask: { prompt, form } });
  }
  async sleep(called, span_ms) {
    const { path, ord } = this.place(called);
    const { execution } = this;
    if (execution.ops.get(path)?.["timer.fired"]) return;
    await execution.append(execution.ops.get(path)?.["timer.set"] ? { check: { path } } : { sleep: { path, ord, span_ms } }, { release: { reason: "unload" } });
  }
}

const work = (ms) => sleep(ms);
const broken = new Set();

const WORKFLOWS = {
  "order@1": async (ctx, input) => {
    await ctx.step("reserve", () => work(input?.fast ? 1 : 120));
    await ctx.step("charge", () => work(input?.charge_ms ?? 150), { long: true });
    await ctx.step("ship", () => work(input?.fast ? 1 : 100));
    return { order: input?.order ?? 1, shipped: true };
  },
  "flaky@1": async (ctx, input) => {
    const retry = { attempts_max: 4, initial_ms: 150, factor_permille: 2000, pause_max_ms: 2000, jitter_permille: 0 };
    await ctx.step("prepare", () => work(60));
    return ctx.step("call-bank", async (attempt) => {
      await work(80);
      if (attempt < (input?.works_at ?? 3)) throw new Error(`bank answered 503 on attempt ${attempt}`);
      return { paid: true };
    }, { retry });
  },
  "patient@1": async (ctx) =>
    ctx.step("call", () => {
      throw new Error("line is busy");
    }, { retry: { attempts_max: 5, initial_ms: 600_000, factor_permille: 2000, pause_max_ms: 3_600_000, jitter_permille: 0 } }),
  "delivery@1": async (ctx, input) => {
    await ctx.step("reserve", () => work(260));
    await ctx.step("charge", () => work(input?.charge_ms ?? 1_400), { long: true });
    const retry = { attempts_max: 5, initial_ms: 500, factor_permille: 1500, pause_max_ms: 5_000, jitter_permille: 0 };
    await ctx.step("invoice", async (attempt) => {
      await work(320);
      if (attempt < 3) throw new Error(`the printer answered 503 on attempt ${attempt}`);
    }, { retry });
    await ctx.ask("approve", `Ship order ${input?.order ?? 1} to Kyōto?`, { choice: ["ship it", "hold it"] });
    await ctx.step("label", () => work(420));
    return ctx.remote("courier", "couriers", { order: input?.order ?? 1 });
  },
  "doomed@1": async (ctx, input) => {
    await ctx.step("prepare", () => null);
    return ctx.step("pay", () => {
      if (broken.has("repaired") || input?.fails === false) return "paid";
      throw new Error(`card ${input?.card ?? 7} was declined`);
    });
  },
  "expense@1": async (ctx, input) => {
    const choice = await ctx.ask("approve", `Pay ${input?.amount ?? 250}?`, { choice: ["yes", "no"] });
    if (choice === "yes") await ctx.step("pay", () => work(20));
    return choice;
  },
  "review@1": async (ctx) => {
    const text = await ctx.ask("comment", "What do you think of it?", "text");
    const form = { schema: { type: "object", required: ["amount", "note"], properties: { amount: { type: "integer" }, note: { type: "string" }, urgent: { type: "boolean" } } } };
    const details = await ctx.ask("details", "How much, and why?", form);
    return { text, details };
  },
  "family@1": async (ctx, input) => {
    await ctx.step("pack", () => work(20));
    const first = await ctx.child("first", "echo", { n: 1 });
    const second = await ctx.child("second", input?.waits ? "listen" : "echo", { n: 2 });
    return { first, second };
  },
  "render@1": async (ctx, input) => {
    await ctx.step("prepare", () => work(30));
    return ctx.remote("encode", "gpu", { file: input?.file ?? "a.mov" });
  },
  "survey@1": async (ctx) => {
    const address = { type: "object", title: "Address", required: ["city"], properties: { city: { type: "string" }, zip: { type: "integer", minimum: 1, maximum: 99999 } } };
    const form = { schema: { type: "object", required: ["kind", "address"], $defs: { address }, properties: { kind: { enum: ["gift", "order"], title: "Kind" }, address: { $ref: "#/$defs/address" }, sizes: { type: "array", items: { type: "number" } }, free: { oneOf: [{ type: "string" }, { type: "null" }] } } } };
    return ctx.ask("shape", "Where to, and what?", form);
  },
  "listen@1": async (ctx) => ctx.wait("go", { signals: ["go"] }),
  "nap@1": async (ctx, input) => {
    await ctx.step("before", () => work(50));
    await ctx.sleep("nap", input?.ms ?? 3_600_000);
    return "awake";
  },
  "echo@1": async (ctx, input) => input,
};

async function execute(execution) {
  try {
    const ctx = new Context(execution);
    const run = WORKFLOWS[`${execution.workflow}@${execution.version}`];
    let last;
    const cancelled = () => execution.cancel_requested || execution.isCancelled;
    try {
      if (cancelled()) return await execution.append({ cancelled: {} });
      last = { complete: { output: (await run(ctx, execution.input)) ?? null } };
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      last = { fail: { failure: error.failure } };
    }
    await execution.append(last);
  } catch (error) {
    if (!(error instanceof Stop)) console.error(`${execution.run}: ${error.message}`);
  }
}

async function main() {
  const queues = (process.env.GOLDSEAM_QUEUES ?? "default").split(",");
  const { worker } = await post("/v1/workers", { name, workflows: Object.keys(WORKFLOWS), slots: 64, lease_ms, queues });
  console.log(`worker ${worker}`);
  const live = new Map();
  const beat = async () => {
    for (;;) {
      try {
        const holding = [...live.values()].map(({ token, end }) => ({ token, after: end }));
        const news = await post(`/v1/workers/${worker}/heartbeat`, { holding, wait_ms: 0 });
        for (const token of news.lost) live.delete(token);
      } catch (error) {
        if (error.code === "GS0311" || error.status === 401) process.exit(0);
      }
      await sleep(lease_ms / 4);
    }
  };
  void beat();
  process.on("SIGTERM", () => fetch(`${url}/v1/workers/${worker}`, { method: "DELETE", headers }).finally(() => process.exit(0)));
  process.on("SIGUSR2", () => broken.add("repaired"));
  for (;;) {
    const claimed = await post(`/v1/workers/${worker}/claim`, { limit: 32, holding: [...live.keys()], wait_ms: 400 }).catch((error) => {
      if (error.code === "GS0311" || error.status === 401) process.exit(0);
      return { executions: [] };
    });
    for (const given of claimed.executions) {
      if (live.has(given.token)) continue;
      const execution = new Execution(given);
      live.set(given.token, execution);
      void execute(execution).finally(() => live.delete(given.token));
    }
  }
}
void main();
