// Unusual stores and servers: long names, hundreds of steps, dozens of branches, damage, an update.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { clean, equal, go, ok, open, sees, Server, until } from "./harness.mjs";

const exec = promisify(execFile);

/** A worker whose only execution the test drives by hand. */
async function execution(server, run, input = null) {
  const { worker } = await server.post("/v1/workers", { name: `worker-of-${run}`, workflows: ["by-hand@1"], slots: 4, lease_ms: 600_000 });
  await server.start("by-hand", run, input);
  let held = await until("the claim", async () => (await server.post(`/v1/workers/${worker}/claim`, { limit: 4, holding: [], wait_ms: 500 })).executions.find((one) => one.run === run));
  let number = 0;
  return async (...doings) => {
    const done = await server.post("/v1/executions/append", { token: held.token, id: `${run}-${number++}`, after: held.end, doings });
    held = done.next ?? { ...held, end: done.end };
    return done;
  };
}

/** Writes something unreadable over a record. */
const damage = (server, sql, ...values) => exec("python3", ["-c", "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1], timeout=10); db.execute(sys.argv[2], sys.argv[3:]); db.commit()", join(server.folder, "s.db"), sql, ...values]);

const isLoaded = (page) => until("the page is loaded", async () => (await page.locator(".busy").count()) === 0);

export function hostile({ context, chrome }) {
  let own;
  /** A server of these tests alone: what they leave behind changes the sentence of the first page. */
  const server = () => (own ??= Server.start());
  return {
    async long_names_and_texts_fit_on_every_page() {
      const its = await server();
      await its.worker("host-" + "with-a-long-name-".repeat(8));
      const long = (text) => text.repeat(128).slice(0, 128);
      const doomed = long("doomed-run-");
      await its.start("doomed", doomed, { card: "4".repeat(600) }, { tags: { ["key".repeat(10)]: "value".repeat(40) } });
      await its.start("expense", long("e"), { amount: "9".repeat(900) });
      await its.start(long("w"), long("x"), { text: "word ".repeat(2000) }, { queue: long("q") });
      await its.post(`/v1/locks/${long("l")}/acquire`, { holder: "holder".repeat(16), ttl_ms: 600_000 });
      await its.post("/v1/tasks", { kind: long("k"), queue: long("i") });
      await its.reaches(doomed, "failed");
      await its.reaches(long("e"), "waiting");
      for (const width of [320, 1280]) {
        const sized = await chrome.newContext({ viewport: { width, height: 800 } });
        const page = await open(sized, its, "");
        for (const path of ["", "runs", `runs/${doomed}`, `runs/${doomed}?tab=events`, `runs/${doomed}?tab=effects`, `runs/${long("e")}`, `runs/${long("x")}`, "failures", "inbox", "queues", `queues?queue=${long("q")}`, `queues?queue=${long("i")}`, "recoveries", "start"]) {
          await go(page, path);
          await page.locator("h1").waitFor();
          await isLoaded(page);
          const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          ok(over <= 0, `/${path} is ${over} px too wide at ${width} px`);
        }
        equal(page.faults, [], "faults");
        await sized.close();
      }
    },

    async hundreds_of_parallel_steps_are_one_readable_page() {
      const its = await server();
      const append = await execution(its, "fan-1");
      const names = Array.from({ length: 300 }, (_, n) => [`fetch:${n}`, n]);
      await append(...names.map(([path, ord]) => ({ step_started: { path, ord, attempt: 1 } })));
      const retry = { attempts_max: 5, initial_ms: 60_000, factor_permille: 2000, pause_max_ms: 600_000, jitter_permille: 0 };
      const failed = ([path, ord]) => ({ step_failed: { path, ord, attempt: 1, took_ms: 5, failure: { class: "retryable", message: `mirror ${ord} answered 503` }, retry } });
      await append(...names.slice(0, 100).map(failed), ...names.slice(100, 200).map(([path, ord]) => ({ step_completed: { path, ord, attempt: 1, output: ord, took_ms: 5 } })));
      await append({ release: { reason: "unload" } });
      const page = await open(context, its, "runs/fan-1");
      await sees(page, "fetch:0 is being retried", ".why");
      ok((await page.locator(".why .links li").count()) <= 10, "few causes are shown at first");
      await page.locator(".why").getByRole("button", { name: "Show 92 more" }).click();
      await sees(page, "fetch:99 is being retried", ".why");
      ok((await page.locator(".timeline-row").count()) < 120, "rows outside of the window are not drawn");
      await page.locator(".timeline .virtual").evaluate((box) => (box.scrollTop = 0));
      await page.getByRole("button", { name: /fetch:0/ }).click();
      await sees(page, "up to 5 attempts, pauses 1 min to 10 min", ".card");
      await clean(page);
    },

    async dozens_of_branches_are_drawn_in_few_lanes() {
      const its = await server();
      const append = await execution(its, "loop-1", 0);
      for (let n = 0; n < 120; n++) await append({ step_completed: { path: "work", ord: 0, attempt: 1, output: n, took_ms: 1 } }, { continue_as_new: { input: n + 1 } });
      const page = await open(context, its, "runs/loop-1");
      await page.locator(".run-row").waitFor();
      equal(await page.locator(".seam").count(), 0, "a run that continues as new has no seam");
      await go(page, "runs/loop-1?tab=branches");
      await sees(page, "b121", ".lineage");
      ok((await page.locator(".lineage svg").evaluate((svg) => svg.clientWidth)) < 200, "few lanes");
      equal(await page.locator(".lineage-rows li").count(), 40, "the latest branches");
      await page.getByRole("button", { name: "Show 81 older" }).click();
      await until("all branches", async () => (await page.locator(".lineage-rows li").count()) === 121);
      await clean(page);
    },

    async a_damaged_store_says_what_is_unreadable() {
      const its = await server();
      const append = await execution(its, "dam-1");
      await append({ step_completed: { path: "a", ord: 0, attempt: 1, output: 1, took_ms: 1 } }, { release: { reason: "unload" } });
      await its.start("ghost", "dam-2");
      await damage(its, "UPDATE events SET body = '{' WHERE seq = 2 AND rid = (SELECT rid FROM runs WHERE id = ?)", "dam-1");
      await damage(its, "UPDATE runs SET summary = '{' WHERE id = ?", "dam-2");
      const page = await open(context, its, "runs/dam-1?tab=events");
      await sees(page, "its log is damaged", ".why");
      await sees(page, "unreadable", ".events-table");
      await go(page, "runs/dam-1?tab=events&event=2");
      await sees(page, "it is unreadable", ".card");
      for (const path of ["runs/dam-1", "runs/dam-1?tab=branches", "runs/dam-1?tab=mail", "runs/dam-1?tab=effects", "runs/dam-2", "runs", "failures", "recoveries", "queues", ""]) {
        await go(page, path);
        await page.locator("h1").waitFor();
        await isLoaded(page);
      }
      await sees(page, "log-damaged", ".findings");
      await clean(page);
    },

    async an_updated_server_is_loaded_again_once() {
      const its = await server();
      const page = await open(context, its, "");
      await page.locator(".tiles").waitFor();
      let asked = 0;
      let isUpdated = false;
      // The code of the page that is open is gone from the server.
      await page.route("**/assets/recoveries-*.js", (route) => (asked++, isUpdated ? route.continue() : route.fulfill({ status: 404 })));
      page.once("load", () => (isUpdated = true));
      await go(page, "recoveries");
      await sees(page, "Recoveries", "h1");
      ok(asked >= 2, "the document was loaded again");
      const other = await open(context, its, "");
      await other.locator(".tiles").waitFor();
      let loads = 0;
      other.on("load", () => loads++);
      await other.route("**/assets/inbox-*.js", (route) => route.fulfill({ status: 404 }));
      await go(other, "inbox");
      await until("the second try", () => loads === 1);
      await sees(other, "the code of this page cannot be loaded", ".problem");
      equal(loads, 1, "one reload, not a loop");
      await other.close();
      await page.close();
    },
  };
}
