// What holds for all pages: hostile payloads, narrow screens, the keyboard, axe, wrong addresses, no polling.
import { readFileSync } from "node:fs";
import { clean, equal, go, ok, open, PAGES, sees, until } from "./harness.mjs";

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

export function looks({ server, context, chrome, alpha }) {
  const visit = (path) => open(context, server, path);
  return {
    async wrong_addresses_explain_themselves() {
      const page = await visit("nowhere");
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
      for (const [other, title] of [["health", "Health"], ["nodes", "Queues, locks, nodes"], ["locks", "Queues, locks, nodes"]]) {
        await go(page, other);
        await sees(page, title, "h1");
      }
      await go(page, "failures/of/nothing");
      await sees(page, "There is no page failures/of/nothing");
      await go(page, "recoveries?rule=NONE");
      await page.getByRole("link", { name: "All recoveries" }).click();
      await sees(page, "Recoveries", "h1");
      await go(page, "queues?queue=none");
      await page.getByRole("link", { name: "All queues" }).waitFor();
      await go(page, "operations/none");
      await page.getByRole("link", { name: "All operations" }).waitFor();
      await go(page, "inbox?run=no-such-run");
      await page.getByRole("link", { name: "Questions of all runs" }).first().waitFor();
      await clean(page);
    },

    async hostile_payloads_are_shown_exactly_as_text() {
      const script = "<script>window.pwned=1</script><img src=x onerror=window.pwned=1>";
      const marks = "abc\u202Edcba\u2066x\u200Fy";
      const deep = "[".repeat(62) + "9007199254740993" + "]".repeat(62);
      const input = `{"__proto__":{"a":1},"2":1,"1":2,"text":${JSON.stringify(script)},"marks":${JSON.stringify(marks)},"big":12345678901234567890123456789,"exact":1.10,"exp":1E+30,"minus":-0,"deep":${deep}}`;
      await server.call("POST", "/v1/runs", `{"workflow":"ghost","id":"hos-1","input":${input},"tags":{"t":${JSON.stringify(script)}}}`);
      const large = JSON.stringify({ rows: Array.from({ length: 20_000 }, (_, n) => `row ${n} ${"x".repeat(90)}`) });
      ok(large.length > 1.9 * 1024 * 1024, "almost 2 MiB");
      await server.call("POST", "/v1/runs", `{"workflow":"ghost","id":"hos-2","input":${large}}`);
      const page = await visit("runs/hos-1");
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
      await until("all rows", async () => (await page.locator(".json .lines").first().evaluate((element) => element.textContent)).includes("row 19999 "));
      await go(page, "runs?text=" + encodeURIComponent(script));
      await sees(page, "No run matches");
      await clean(page);
    },

    async narrow_pages_do_not_scroll_sideways() {
      const narrow = await chrome.newContext({ viewport: { width: 320, height: 700 } });
      const page = await open(narrow, server, "");
      for (const path of [...PAGES, "pass", "runs/bank-1?tab=events&event=3"]) {
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
      const page = await visit("runs");
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
        for (const path of [...PAGES, "pass", "runs/bank-1?tab=events&event=3"]) {
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
      const page = await context.newPage();
      let last = Date.now();
      const asked = [];
      page.on("request", (request) => (asked.push(request.url()), (last = Date.now())));
      await page.goto(server.page);
      await page.locator(".plot canvas").waitFor();
      await until(`six seconds without a request; ${asked}`, () => Date.now() - last > 6_000, 40_000);
      await page.close();
    },

    async every_page_has_a_valid_command_and_its_document() {
      const page = await visit("");
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
}
