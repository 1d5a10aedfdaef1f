// A server on SQLite, workers, a browser, and checks.
//
// GOLDSEAM_BINARY is the program, GOLDSEAM_CHROMIUM the browser. With GOLDSEAM_UI_FILES the pages come from that folder
// instead of the binary, so that a change of the page needs no build of the server.
import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { Front } from "./front.mjs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { equal } from "./checks.mjs";

export { equal, ok, runAll } from "./checks.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
export const binary = process.env.GOLDSEAM_BINARY ?? "goldseam";
const executablePath = process.env.GOLDSEAM_CHROMIUM ?? "/usr/bin/chromium";
const run = promisify(execFile);

/** Everything that was started, to be ended. */
const children = new Set();
const folders = [];
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function start(program, args, options) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  child.lines = "";
  child.stdout.on("data", (data) => (child.lines += data));
  child.stderr.on("data", (data) => (child.lines += data));
  child.ended = new Promise((done) => child.once("exit", done));
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}

const freePort = () =>
  new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });

/** Waits until `look` returns something. */
export async function until(what, look, limit = 20_000) {
  const end = Date.now() + limit;
  let last;
  for (;;) {
    try {
      last = await look();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) throw new Error(`${what} did not happen within ${limit} ms; last: ${last?.stack ?? last}`);
    await new Promise((done) => setTimeout(done, 40));
  }
}

export class Server {
  static async start(settings = []) {
    const server = new Server();
    server.folder = mkdtempSync(join(tmpdir(), "goldseam-ui-test-"));
    folders.push(server.folder);
    server.port = await freePort();
    server.url = `http://127.0.0.1:${server.port}`;
    const files = process.env.GOLDSEAM_UI_FILES;
    server.page = files ? await Front.start(files, server.port) : server.url;
    server.store = `sqlite:${join(server.folder, "s.db")}`;
    server.settings = settings.flatMap((one) => ["--set", one]);
    await server.boot();
    return server;
  }
  async boot() {
    this.process = start(binary, ["serve", "--store", this.store, "--listen", `127.0.0.1:${this.port}`, ...this.settings], { cwd: this.folder, env: { ...process.env, GOLDSEAM_LOG: "error" } });
    await until("the server's start", async () => {
      if (this.process.exitCode !== null) throw new Error(this.process.lines);
      return (await fetch(`${this.url}/healthz`)).ok;
    });
  }
  async stop(signal = "SIGKILL") {
    this.process.kill(signal);
    await this.process.ended;
  }
  /** A worker with the workflows of worker.mjs. */
  async worker(name, env = {}) {
    const child = start(process.execPath, [join(here, "worker.mjs"), this.url, name], { env: { ...process.env, ...this.credentials(), ...env } });
    await until(`the start of ${name}`, () => child.lines.includes("worker n-"));
    return child;
  }
  credentials() {
    return this.key ? { GOLDSEAM_KEY: this.key } : {};
  }
  async call(method, path, body, text = false) {
    const headers = { ...(this.key ? { authorization: `Bearer ${this.key}` } : {}), ...(body === undefined ? {} : { "content-type": "application/json" }) };
    const response = await fetch(this.url + path, { method, headers, body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body) });
    const said = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${said}`);
    return text ? said : JSON.parse(said);
  }
  get = (path) => this.call("GET", path);
  post = (path, body) => this.call("POST", path, body);
  start = (workflow, id, input = null, more = {}) => this.post("/v1/runs", { workflow, id, input, ...more });
  status = async (id) => (await this.get(`/v1/runs/${id}`)).status;
  reaches = (id, ...wanted) => until(`${id} is ${wanted}`, async () => wanted.includes(await this.status(id)));
  /** The output of a command against this server. */
  async cli(...args) {
    const { stdout } = await run(binary, [...args, "--server", this.url], { env: { ...process.env, ...this.credentials(), NO_COLOR: "1" }, cwd: this.folder });
    return stdout;
  }
  /** Writes a wrong status into the cached row of a run, as a foreign program would. */
  async tamper(id, status) {
    const script = [
      "import json, sqlite3, sys",
      "db = sqlite3.connect(sys.argv[1], timeout=10)",
      "text, = db.execute('SELECT summary FROM runs WHERE id = ?', (sys.argv[2],)).fetchone()",
      "row = json.loads(text); row['status'] = sys.argv[3]",
      "db.execute('UPDATE runs SET summary = ?, status = ? WHERE id = ?', (json.dumps(row, separators=(',', ':')), sys.argv[3], sys.argv[2])); db.commit()",
    ].join("\n");
    await run("python3", ["-c", script, join(this.folder, "s.db"), id, status]);
  }
  /** The output of a command on the store itself. */
  async local(...args) {
    const { stdout } = await run(binary, [...args, "--store", this.store], { cwd: this.folder });
    return stdout;
  }
}

export async function browser() {
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** A page that fails the test if the browser reports an error. */
export async function open(context, server, path = "") {
  const page = await context.newPage();
  page.faults = [];
  page.requests = [];
  page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource|net::ERR/.test(message.text())) page.faults.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => page.requests.push(request));
  page.setDefaultTimeout(15_000);
  await page.goto(`${server.page}/${path}`);
  return page;
}

/** Opens another page of the dashboard, without loading the document again. */
export const go = (page, path) =>
  page.evaluate((to) => {
    history.pushState(null, "", `/${to}`);
    dispatchEvent(new PopStateEvent("popstate"));
  }, path);

/** Shows a text within a part of the page. */
export const sees = (page, text, selector = "main") => page.locator(selector).filter({ hasText: text }).first().waitFor();

/** Addresses of all pages, with the runs that run.mjs starts. */
export const PAGES = ["", "runs", "runs/ord-1", "runs/bank-1", "runs/exp-1", "runs/ord-1?tab=events", "runs/ord-1?tab=branches", "runs/ord-1?tab=mail", "runs/ord-1?tab=children", "runs/ord-1?tab=effects", "failures", "recoveries", "inbox", "queues", "queues?queue=images", "operations", "start", "api", "nowhere", "runs/no-such-run"];

/** Closes a page, and fails if its browser reported an error. */
export async function clean(page) {
  equal(page.faults, [], "faults of the page");
  await page.close();
}
