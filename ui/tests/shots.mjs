// Screenshots of every page in both themes, into ui/shots; two of them are in the README.
import { copyFileSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { browser, go, open, Server, until } from "./harness.mjs";

const shots = fileURLToPath(new URL("../shots/", import.meta.url));
const images = fileURLToPath(new URL("../../docs/images/", import.meta.url));
mkdirSync(shots, { recursive: true });
mkdirSync(images, { recursive: true });
const server = await Server.start();
const alpha = await server.worker("billing-1");

// One order whose worker is killed while it charges; another worker takes over. A person approves, a courier drives.
await server.start("delivery", "ord-1041", { order: 1041, items: ["a-1", "b-2"], charge_ms: 1_600 }, { tags: { customer: "ada" }, priority: 5 });
await until("charge is half done", async () => (await server.get("/v1/runs/ord-1041")).steps.some((step) => step.path === "charge" && Date.now() - step.began > 800));
alpha.kill("SIGKILL");
await server.worker("billing-2");
await server.reaches("ord-1041", "waiting");
// A jump back with another input, for the page of branches.
await server.start("order", "ord-1007", { order: 1007, charge_ms: 300 });
await server.reaches("ord-1007", "completed");
await server.post("/v1/runs/ord-1007/jump", { to: "charge", input: { order: 1007, charge_ms: 200 }, reason: "another card" });
await server.reaches("ord-1007", "completed");
const names = ["order", "order", "order", "flaky", "expense", "listen", "nap", "doomed", "review", "echo"];
for (let n = 0; n < 60; n++) await server.start(names[n % names.length], `${names[n % names.length].slice(0, 3)}-${2000 + n}`, { order: n, amount: 100 + n, card: n, charge_ms: 60 + 7 * n, ms: 3_600_000 }, { tags: { region: n % 2 ? "eu" : "us" } });
await server.start("order", "ord-3000", { order: 3000, charge_ms: 600_000 });
await server.start("ghost", "gho-1", { for: "a workflow that no node has" });
await server.post("/v1/locks/invoices/acquire", { holder: "ada", ttl_ms: 600_000 });
await server.post("/v1/tasks", { kind: "resize", queue: "images" });
await server.reaches("fla-2003", "completed");
await until("the failures", async () => (await server.get("/v1/failures")).total === 6);
const operation = await server.post("/v1/operations", { verb: "pause", where: 'workflow = listen and tag.region = "eu"', reason: "maintenance" });
await until("the operation", async () => (await server.get(`/v1/operations/${operation.id}`)).ended_at);

// Enough idle time to be collapsed, then the end of the story.
await until("the wait is long", async () => Date.now() - (await server.get("/v1/runs/ord-1041")).waits[0].since > 9_000);
await server.post("/v1/runs/ord-1041/questions/approve/answer", { answer: "ship it" });
const claimed = await until("the courier", async () => (await server.post("/v1/tasks/claim", { owner: "courier-7", queue: "couriers", wait_ms: 500 })).items[0]);
await server.post(`/v1/tasks/${claimed.task.id}/heartbeat`, { token: claimed.token, details: { at: "the bridge" } });

const PAGES = { health: "", runs: "runs", run: "runs/ord-1041", attempts: "runs/fla-2003", events: "runs/ord-1041?tab=events&event=5", branches: "runs/ord-1007?tab=branches", mail: "runs/ord-1041?tab=mail", effects: "runs/ord-1041?tab=effects", failures: "failures", recoveries: "recoveries", inbox: "inbox", queues: "queues", operations: "operations", operation: `operations/${operation.id}`, start: "start", api: "api", unknown: "nowhere" };
const README = { "health-light": "health-light", "run-dark": "run-dark" };

const chrome = await browser();
for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 320]) {
    const context = await chrome.newContext({ viewport: { width, height: 860 }, colorScheme, deviceScaleFactor: 1 });
    const page = await open(context, server, "");
    for (const [name, path] of Object.entries(PAGES)) {
      await go(page, path);
      await page.locator("h1").waitFor();
      await until(`${name} is loaded`, async () => (await page.locator(".busy").count()) === 0);
      if (path === "") await page.locator(".plot canvas").waitFor();
      if (name === "run" && width > 400) await page.locator(".seam").first().click();
      await page.evaluate(() => (document.activeElement.blur(), scrollTo(0, 0)));
      const file = `${name}-${colorScheme}${width < 400 ? "-narrow" : ""}`;
      await page.screenshot({ path: `${shots}${file}.png`, fullPage: width < 400 });
      if (README[file]) copyFileSync(`${shots}${file}.png`, `${images}${README[file]}.png`);
    }
    await context.close();
  }
}
await chrome.close();
console.log(`screenshots of ${Object.keys(PAGES).length} pages in ${shots}`);
process.exit(0);
