// The figures of the dashboard. Each has a limit, and the command fails above it.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { browser, go, open, Server, until } from "./harness.mjs";

const server = await Server.start();
const failures = [];
function figure(name, value, limit, unit) {
  const isGood = value <= limit;
  console.log(`${isGood ? "      ok" : "TOO MUCH"}  ${name}: ${Math.round(value * 100) / 100} ${unit} (limit ${limit})`);
  if (!isGood) failures.push(name);
}

/** A run with many events: a worker that appends steps in batches. */
async function longRun(id, events) {
  const { worker } = await server.post("/v1/workers", { name: "long", workflows: ["long@1"], slots: 1, lease_ms: 60_000 });
  await server.start("long", id);
  const claimed = await until("the claim", async () => (await server.post(`/v1/workers/${worker}/claim`, { limit: 1, holding: [], wait_ms: 1000 })).executions[0]);
  let { token, end } = claimed;
  for (let ord = 0; end < events; ) {
    const doings = Array.from({ length: 50 }, () => {
      const n = ord++;
      return { step_completed: { path: `step:${n}`, ord: n, attempt: 1, output: { n, note: "x".repeat(40) }, took_ms: 1 } };
    });
    ({ end } = await server.post("/v1/executions/append", { token, id: `a${ord}`, after: end, doings }));
  }
  return end;
}

/** Scrolls a list for 120 frames, in the page. Returns how long they took, the shortest first. */
async function scroll(selector) {
  const box = document.querySelector(selector);
  box.scrollTop = box.scrollHeight;
  const spans = [];
  let last = await new Promise(requestAnimationFrame);
  for (let n = 0; n < 120; n++) {
    box.scrollTop = Math.max(0, box.scrollTop - 700);
    const now = await new Promise(requestAnimationFrame);
    spans.push(now - last);
    last = now;
  }
  return spans.sort((a, b) => a - b);
}

const cpu = (pid) => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return Number(fields[11]) + Number(fields[12]);
};
const TICKS = Number(execFileSync("getconf", ["CLK_TCK"]).toString());

const chrome = await browser();
const context = await chrome.newContext({ viewport: { width: 1280, height: 900 } });

// Size of the first page.
{
  const page = await context.newPage();
  const sizes = [];
  page.on("response", async (response) => {
    if (/\.js$/.test(new URL(response.url()).pathname)) sizes.push(Number(response.headers()["content-length"]));
  });
  await page.goto(server.page);
  await page.locator(".plot canvas").waitFor();
  figure("JavaScript of the first page, gzip", sizes.reduce((a, b) => a + b, 0) / 1000, 90, "kB");
  await page.close();
}

// First paint, the best of several: a busy machine delays any of them.
{
  const paints = [];
  for (let n = 0; n < 7; n++) {
    const fresh = await chrome.newContext();
    const page = await fresh.newPage();
    await page.goto(server.page);
    await page.locator("h1").waitFor();
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime));
    await fresh.close();
  }
  figure("first contentful paint", Math.min(...paints), 300, "ms");
}

// A run with 20,000 events.
{
  const end = await longRun("long-1", 20_000);
  const page = await open(context, server, "");
  await page.locator("h1").waitFor();
  await go(page, "runs/none-such");
  await page.locator(".problem").waitFor();
  const opened = [];
  for (let n = 0; n < 3; n++) {
    await go(page, "runs");
    await page.locator(".runs-table").waitFor();
    const took = await page.evaluate(async () => {
      const began = performance.now();
      history.pushState(null, "", "/runs/long-1");
      dispatchEvent(new PopStateEvent("popstate"));
      while (!document.querySelector(".timeline-row.is-done")) await new Promise((done) => requestAnimationFrame(done));
      return performance.now() - began;
    });
    opened.push(took);
  }
  figure(`opening a run with ${end} events`, Math.min(...opened), 1000, "ms");
  for (const [name, path, row] of [["timeline", "runs/long-1", ".timeline .virtual"], ["events", "runs/long-1?tab=events", ".events-table .virtual"]]) {
    await go(page, path);
    await page.locator(row).waitFor();
    const cdp = await context.newCDPSession(page);
    await cdp.send("Performance.enable");
    const work = async () => (await cdp.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value * 1000;
    // The best of several: a busy machine delays any of them.
    const tries = [];
    for (let n = 0; n < 5; n++) {
      const before = await work();
      const frames = await page.evaluate(scroll, row);
      tries.push({ longest: frames.at(-1), most: frames[Math.floor(frames.length * 0.99)], work: ((await work()) - before) / frames.length });
    }
    figure(`longest frame while scrolling the ${name}`, Math.min(...tries.map((one) => one.longest)), 50, "ms");
    figure(`99th percentile of frames (${name})`, Math.min(...tries.map((one) => one.most)), 50, "ms");
    figure(`work of the page for a frame (${name})`, Math.min(...tries.map((one) => one.work)), 16, "ms");
  }
  await page.close();
}

// What an open and idle dashboard costs the server, compared with none.
{
  const measure = async (seconds) => {
    const before = cpu(server.process.pid);
    await new Promise((done) => setTimeout(done, seconds * 1000));
    return ((cpu(server.process.pid) - before) / TICKS / seconds) * 100;
  };
  const without = await measure(20);
  const page = await open(context, server, "");
  await page.locator(".plot canvas").waitFor();
  await new Promise((done) => setTimeout(done, 2000));
  const with_one = await measure(20);
  console.log(`          server without a dashboard: ${without.toFixed(2)} %, with one: ${with_one.toFixed(2)} % of a core`);
  figure("cost of an idle dashboard", Math.max(0, with_one - without), 1, "% of a core");
  await page.close();
}

await chrome.close();
process.exit(failures.length ? 1 : 0);
