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

await server.start("order", "ord-1041", { order: 1041, charge_ms: 900 }, { tags: { customer: "ada" } });
await until("charge began", async () => (await server.get("/v1/runs/ord-1041")).steps.some((step) => step.path === "charge"));
alpha.kill("SIGKILL");
await server.worker("billing-2");
await server.reaches("ord-1041", "completed");
await server.post("/v1/runs/ord-1041/jump", { to: "charge", input: { order: 1041, charge_ms: 400 }, reason: "another card" });
const names = ["order", "order", "order", "flaky", "expense", "listen", "nap", "doomed", "review", "echo"];
for (let n = 0; n < 60; n++) await server.start(names[n % names.length], `${names[n % names.length].slice(0, 3)}-${2000 + n}`, { order: n, amount: 100 + n, card: n, charge_ms: 60 + 7 * n, ms: 3_600_000 }, { tags: { region: n % 2 ? "eu" : "us" } });
await server.start("order", "ord-3000", { order: 3000, charge_ms: 600_000 });
await server.start("ghost", "gho-1", { for: "a workflow that no node has" });
await server.post("/v1/locks/invoices/acquire", { holder: "ada", ttl_ms: 600_000 });
await server.post("/v1/tasks", { kind: "resize", queue: "images" });
await server.reaches("ord-1041", "completed");
await server.reaches("flaky-2003".replace("flaky", "fla"), "completed");
await until("the failures", async () => (await server.get("/v1/failures")).total === 6);
const operation = await server.post("/v1/operations", { verb: "pause", where: 'workflow = listen and tag.region = "eu"', reason: "maintenance" });
await until("the operation", async () => (await server.get(`/v1/operations/${operation.id}`)).ended_at);

const PAGES = { health: "", runs: "runs", run: "runs/ord-1041", attempts: "runs/fla-2003", events: "runs/ord-1041?tab=events", branches: "runs/ord-1041?tab=branches", mail: "runs/ord-1041?tab=mail", effects: "runs/ord-1041?tab=effects", failures: "failures", recoveries: "recoveries", inbox: "inbox", queues: "queues", operations: "operations", operation: `operations/${operation.id}`, start: "start", api: "api", unknown: "nowhere" };
const README = { "health-light": "health-light", "run-dark": "run-dark" };

const chrome = await browser();
for (const colorScheme of ["light", "dark"]) {
  for (const width of [1280, 360]) {
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
