// Every page and every action, in a browser, against a server on SQLite with real workers.
import { readFileSync } from "node:fs";
import { browser, equal, go, ok, open, runAll, sees, Server, until } from "./harness.mjs";
import { actions } from "./actions.mjs";
import { keys } from "./keys.mjs";

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

const chrome = await browser();
const context = await chrome.newContext({ viewport: { width: 1280, height: 900 } });
await context.grantPermissions(["clipboard-read", "clipboard-write"]);
const server = await Server.start();
const alpha = await server.worker("alpha");
const world = { server, context, chrome, alpha, open: (path) => open(context, server, path) };

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

const PAGES = ["", "runs", "runs/ord-1", "runs/bank-1", "runs/exp-1", "runs/ord-1?tab=events", "runs/ord-1?tab=branches", "runs/ord-1?tab=mail", "runs/ord-1?tab=children", "runs/ord-1?tab=effects", "failures", "recoveries", "inbox", "queues", "queues?queue=images", "operations", "start", "api", "nowhere", "runs/no-such-run"];

async function clean(page) {
  equal(page.faults, [], "faults of the page");
  await page.close();
}

const pages = {
  async health_tells_the_truth_in_one_sentence() {
    const page = await world.open("");
    await sees(page, "1 finding needs attention. 1 question waits for a person.", ".sentence");
    const failed = page.locator(".tiles li", { hasText: "failed" });
    equal(await failed.locator("strong").innerText(), "2", "failed runs");
    await sees(page, "no live node has workflow ghost", ".findings");
    await sees(page, "alpha");
    await sees(page, "images", "table");
    await page.locator(".plot canvas").waitFor();
    // A new run changes the tiles without a reload.
    await server.start("listen", "lis-2");
    await until("the tile", async () => (await page.locator(".tiles li", { hasText: "waiting" }).locator("strong").innerText()) === "3");
    await clean(page);
  },

  async runs_filter_in_the_address_and_live() {
    const page = await world.open("runs");
    await sees(page, "ord-1", ".runs-table");
    await page.locator(".chip", { hasText: "failed" }).click();
    await sees(page, "2 match");
    ok((await page.evaluate(() => location.search)).includes("status=failed"), "the filter is in the address");
    equal(await page.locator(".runs-table [role=row]:not(.head)").count(), 2, "rows");
    await page.getByLabel("Text").fill("pay-2");
    await page.keyboard.press("Enter");
    await sees(page, "1 match");
    await page.goto(`${server.page}/runs?workflow=order&tag=customer%3Dada`);
    await page.reload();
    await sees(page, "1 match");
    await page.locator("#view-name").fill("orders of ada");
    await page.getByText("Save view").click();
    await go(page, "runs");
    await page.getByRole("link", { name: "orders of ada" }).click();
    await sees(page, "1 match");
    equal(await page.locator("datalist#workflows option").count() > 4, true, "completion of workflows");
    await go(page, "runs?workflow=echo");
    await sees(page, "No run matches");
    await server.start("echo", "ech-1", 1);
    await sees(page, "ech-1", ".runs-table");
    await until("the end of ech-1", async () => (await page.locator(".runs-table").innerText()).includes("completed"));
    await clean(page);
  },

  async run_says_why_in_the_words_of_the_command_line() {
    const page = await world.open("runs/exp-1");
    const verdict = (await server.get("/v1/runs/exp-1/why")).verdict;
    await sees(page, verdict, ".why");
    ok((await server.cli("why", "exp-1")).includes(verdict), "the command line has the same words");
    await go(page, "runs/bank-1");
    await page.getByRole("button", { name: /call-bank/ }).click();
    await sees(page, "3 attempts in the log", "caption");
    await sees(page, "bank answered 503 on attempt 2", "table");
    equal(await page.locator(".timeline-row", { hasText: "call-bank" }).locator(".bar.is-failure").count(), 2, "a bar for each failed attempt");
    equal(await page.locator(".timeline-row", { hasText: "call-bank" }).locator(".bar.is-pause").count(), 2, "pauses");
    await page.getByRole("link", { name: "JSON" }).first().click();
    await sees(page, '"workflow": "flaky"', "dialog");
    await page.keyboard.press("Escape");
    await clean(page);
  },

  async events_scrub_to_the_state_at_an_event() {
    const page = await world.open("runs/ord-1?tab=events");
    await sees(page, "run.queued", ".events-table");
    await page.locator("#scrub").evaluate((input) => {
      input.value = "1";
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await sees(page, "queued", ".scrubber .status");
    await page.locator("#scrub").evaluate((input) => input.dispatchEvent(new Event("change", { bubbles: true })));
    await sees(page, "The state as derived at event #1", ".banner");
    await sees(page, "queued", ".why");
    await page.getByText("Back to now").click();
    await page.locator(".events-table").getByText("step.completed").first().click();
    await sees(page, '"path": "reserve"', ".json");
    await clean(page);
  },

  async branches_stand_side_by_side() {
    const page = await world.open("runs/ord-1?tab=branches");
    await sees(page, "b1 and b2, side by side");
    equal(await page.locator(".lineage .cut").count(), 1, "one cut");
    await sees(page, "They are the same up to event #", ".parted");
    await page.locator("#branch").selectOption("b1");
    ok((await page.evaluate(() => location.search)).includes("branch=b1"), "the branch is in the address");
    await clean(page);
  },

  async queues_show_who_holds_what() {
    const page = await world.open("queues");
    await sees(page, "1 run of workflow ghost waits, and no live node has it.", ".banner");
    await sees(page, "print", "table");
    await sees(page, "ada", "table");
    await page.getByRole("link", { name: "images" }).click();
    await sees(page, "resize", "table");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.locator("dialog").getByRole("button", { name: "Cancel" }).click();
    await until("the task is cancelled", async () => (await server.get("/v1/tasks?queue=images")).items[0].state === "cancelled");
    await server.post("/v1/tasks", { kind: "resize", queue: "images" });
    await sees(page, "alpha", ".node");
    await clean(page);
  },

  async api_page_renders_the_description() {
    const page = await world.open("api");
    await page.locator(".route summary", { hasText: "/v1/runs/{run}/jump" }).click();
    await sees(page, "drop_cancel", ".route");
    await page.getByLabel("Find a route").fill("passes/rotate");
    await until("the filter", async () => (await page.locator(".route").count()) === 1);
    await clean(page);
  },

  async wrong_addresses_explain_themselves() {
    const page = await world.open("nowhere");
    await sees(page, "There is no page nowhere");
    await go(page, "runs/no-such-run");
    await sees(page, "GS0104", ".problem");
    await page.getByRole("link", { name: "All runs" }).waitFor();
    await go(page, "runs/ord-1?branch=b77");
    await sees(page, "the run has no branch b77", ".problem");
    await go(page, "runs/ord-1?at=9999");
    await sees(page, "GS0626", ".problem");
    await go(page, "runs/ord-1?tab=nothing");
    await sees(page, "There is no tab nothing");
    await go(page, "runs?where=statsu%20%3D%20failed");
    await sees(page, "GS0140", ".problem");
    await go(page, "operations/none");
    await page.getByRole("link", { name: "All operations" }).waitFor();
    await go(page, "inbox?run=no-such-run");
    await page.getByRole("link", { name: "Questions of all runs" }).first().waitFor();
    await clean(page);
  },

  async hostile_payloads_are_shown_exactly_as_text() {
    const script = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>";
    const marks = "abc\u202Edcba\u2066x\u200Fy";
    const deep = "[".repeat(60) + "9007199254740993" + "]".repeat(60);
    const input = `{"__proto__":{"a":1},"2":1,"1":2,"text":${JSON.stringify(script)},"marks":${JSON.stringify(marks)},"big":12345678901234567890123456789,"exact":1.10,"exp":1E+30,"minus":-0,"deep":${deep}}`;
    await server.call("POST", "/v1/runs", `{"workflow":"ghost","id":"hos-1","input":${input},"tags":{"t":${JSON.stringify(script)}}}`);
    const large = JSON.stringify({ rows: Array.from({ length: 2_000 }, (_, n) => `row ${n} ${"x".repeat(100)}`) });
    await server.call("POST", "/v1/runs", `{"workflow":"ghost","id":"hos-2","input":${large}}`);
    const page = await world.open("runs/hos-1");
    const shown = page.locator(".json .lines").first();
    await sees(page, "12345678901234567890123456789", ".json");
    const text = (await shown.evaluate((element) => element.textContent)).replace(/\n\s*/g, "").replaceAll('": ', '":');
    equal(text, input, "the input as text");
    equal(await page.evaluate(() => window.pwned), undefined, "no script runs");
    equal(await page.locator("main img, main script").count(), 0, "no element comes from a payload");
    ok((await page.locator(".fact", { hasText: "<script>" }).count()) > 0, "the tag is text");
    ok((await page.locator(".control[data-code='U+202E']").count()) > 0, "the mark is visible");
    await go(page, "runs/hos-2");
    await page.getByText(/Show all/).click();
    await until("all rows", async () => (await page.locator(".json .lines").first().evaluate((element) => element.textContent)).includes("row 1999 "));
    await go(page, "runs?text=" + encodeURIComponent(script));
    await sees(page, "No run matches");
    await clean(page);
  },

  async narrow_pages_do_not_scroll_sideways() {
    const narrow = await chrome.newContext({ viewport: { width: 320, height: 700 } });
    const page = await open(narrow, server, "");
    for (const path of PAGES) {
      await go(page, path);
      await page.locator("h1").waitFor();
      await until("the page is loaded", async () => (await page.locator(".busy").count()) === 0);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      ok(over <= 0, `/${path} is ${over} px too wide`);
    }
    await page.getByRole("button", { name: "Menu" }).click();
    await page.getByRole("link", { name: "Failures" }).click();
    await sees(page, "Failures", "h1");
    await narrow.close();
  },

  async keyboard_reaches_everything() {
    const page = await world.open("runs");
    await sees(page, "ord-1", ".runs-table");
    await page.keyboard.press("Tab");
    equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Skip to the content", "the first stop");
    await page.keyboard.press("Enter");
    equal(await page.evaluate(() => document.activeElement.id), "main", "the content has the focus");
    const unreachable = await page.evaluate(() => [...document.querySelectorAll("main [onclick], main [tabindex='-1']:not(h1):not(#main)")].length);
    equal(unreachable, 0, "elements that only a mouse reaches");
    await page.keyboard.press("g");
    await page.keyboard.press("f");
    await sees(page, "Failures", "h1");
    equal(await page.evaluate(() => document.activeElement.tagName), "H1", "the focus moves to the new page");
    await page.getByLabel("Condition").focus();
    await page.keyboard.type("grh");
    equal(await page.getByLabel("Condition").inputValue(), "grh", "shortcuts leave fields alone");
    await clean(page);
  },

  async axe_finds_no_violation_light_and_dark() {
    for (const colorScheme of ["light", "dark"]) {
      const themed = await chrome.newContext({ viewport: { width: 1280, height: 900 }, colorScheme, bypassCSP: true });
      const page = await open(themed, server, "");
      await page.evaluate(axe);
      for (const path of PAGES) {
        await go(page, path);
        await page.locator("h1").waitFor();
        await until("the page is loaded", async () => (await page.locator(".busy").count()) === 0);
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        equal(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`), [], `/${path} ${colorScheme}`);
      }
      equal(page.faults, [], "faults");
      await themed.close();
    }
  },

  async an_idle_page_asks_nothing() {
    const page = await world.open("");
    await sees(page, "question", ".sentence");
    await page.locator(".plot canvas").waitFor();
    await new Promise((done) => setTimeout(done, 1_500));
    page.requests.length = 0;
    await new Promise((done) => setTimeout(done, 3_000));
    equal(page.requests.map((request) => request.url()), [], "requests of an idle page");
    await clean(page);
  },

  async every_page_has_a_valid_command_and_its_document() {
    const page = await world.open("");
    for (const path of PAGES.filter((path) => !path.startsWith("n") && path !== "api" && path !== "runs/no-such-run")) {
      await go(page, path);
      const head = page.locator(".page-head .command");
      await head.waitFor();
      const line = await head.locator("code").innerText();
      ok(line.startsWith("goldseam "), line);
      const json = await head.getByRole("link", { name: "JSON" }).getAttribute("href");
      await server.get(json);
      const verb = line.replace("WORKFLOW", "echo").split(" ").slice(1);
      if (verb[0] === "start") continue;
      await server.cli(...verb.map((word) => word.replaceAll("'", ""))).catch((error) => ok(!/usage|unexpected argument|unrecognized/i.test(error.message), `${line}: ${error.message}`));
    }
    await clean(page);
  },
};

await runAll({ ...pages, ...actions(world), ...keys(world) });
