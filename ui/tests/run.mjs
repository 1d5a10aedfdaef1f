// Every page and every action, in a browser, against a server on SQLite with real workers.
// node tests/run.mjs [PART OF A NAME]
import { actions } from "./actions.mjs";
import { browser, runAll, Server } from "./harness.mjs";
import { hostile } from "./hostile.mjs";
import { keys } from "./keys.mjs";
import { looks } from "./looks.mjs";
import { pages } from "./pages.mjs";
import { units } from "./units.mjs";

const chrome = await browser();
const context = await chrome.newContext({ viewport: { width: 1280, height: 900 } });
await context.grantPermissions(["clipboard-read", "clipboard-write"]);
const server = await Server.start(["limits.payload_bytes_max=2097152"]);
const alpha = await server.worker("alpha");
const world = { server, context, chrome, alpha };

/** Runs with something to see on every page. */
async function seed() {
  await Promise.all([
    server.start("order", "ord-1", { order: 1 }, { tags: { customer: "ada" } }),
    server.start("order", "ord-2", { order: 2 }),
    server.start("flaky", "bank-1"),
    server.start("doomed", "pay-1", { card: 11 }),
    server.start("doomed", "pay-2", { card: 22 }),
    server.start("expense", "exp-1", { amount: 250 }),
    server.start("listen", "lis-1"),
    server.start("nap", "nap-1"),
    server.start("ghost", "gho-1"),
  ]);
  for (const [run, ...wanted] of [["ord-1", "completed"], ["bank-1", "completed"], ["pay-1", "failed"], ["pay-2", "failed"], ["exp-1", "waiting"], ["nap-1", "sleeping"]]) {
    await server.reaches(run, ...wanted);
  }
  await server.post("/v1/runs/ord-1/jump", { to: "charge", reason: "seeded" });
  await server.reaches("ord-1", "completed");
  await server.post("/v1/locks/print/acquire", { holder: "ada", ttl_ms: 600_000 });
  await server.post("/v1/tasks", { kind: "resize", queue: "images" });
}
await seed();

await runAll({ ...units, ...pages(world), ...looks(world), ...actions(world), ...keys(world), ...hostile(world) }, async () => {
  // Pages of a failed test would keep their connections, of which a browser allows few.
  for (const page of context.pages()) await page.close();
});
