// Keys, and a server that goes away under an open page.
import { equal, go, ok, open, sees, Server, until } from "./harness.mjs";

export function keys({ chrome }) {
  const create = async (server, name, scopes) => JSON.parse(await server.local("key", "create", name, "--scope", scopes, "--json"));
  return {
    async a_key_is_asked_for_and_decides_what_appears() {
      const server = await Server.start();
      const { credential, id } = await create(server, "reader", "read");
      const full = await create(server, "ops", "read,start,signal,operate,worker,admin");
      server.key = full.credential;
      await until("the server asks for keys", async () => (await fetch(`${server.url}/v1/runs`)).status === 401);
      await server.worker("keyed");
      await server.start("listen", "key-1");
      await server.reaches("key-1", "waiting");
      const context = await chrome.newContext();
      const page = await open(context, server, "runs/key-1");
      await page.getByLabel("Key").fill("gsk_wrong");
      await page.getByRole("button", { name: "Log in" }).click();
      await sees(page, "GS0601", ".problem");
      await page.getByLabel("Key").fill(credential);
      await page.getByRole("button", { name: "Log in" }).click();
      await sees(page, "waiting", ".why .status");
      equal(await page.locator(".actions button").count(), 0, "a key that reads gets no actions");
      for (const path of ["runs?status=waiting", "failures", "inbox", "queues", "start"]) {
        await go(page, path);
        await page.locator("h1").waitFor();
        equal(await page.locator(".bulk button, form button.primary").count(), 0, `no action on ${path}`);
      }
      ok(page.requests.every((request) => !request.url().includes("gsk_")), "the key is in no address");
      equal(await context.cookies(), [], "no cookie");
      equal(await page.evaluate(() => sessionStorage.length), 0, "the key is only in memory");
      // A key that is revoked under the open page.
      await go(page, "runs/key-1");
      await sees(page, "waiting", ".why .status");
      await server.post(`/v1/keys/${id}/revoke`);
      await sees(page, "This key has ended", ".login");
      ok(!(await page.content()).includes("key-1</"), "nothing of the run stays on the page");
      // The kept key survives a reload of the tab.
      await page.getByLabel("Key").fill(full.credential);
      await page.getByLabel(/Keep it/).check();
      await page.getByRole("button", { name: "Log in" }).click();
      await sees(page, "waiting", ".why .status");
      await page.reload();
      await sees(page, "waiting", ".why .status");
      ok((await page.locator(".actions button").count()) > 3, "a key with all scopes gets the actions");
      await page.getByRole("button", { name: "Log out" }).click();
      await page.getByLabel("Key").waitFor();
      equal(await page.evaluate(() => sessionStorage.length), 0, "the key is forgotten");
      await context.close();
      await server.stop();
    },

    async a_restarted_server_is_found_again() {
      const server = await Server.start();
      const context = await chrome.newContext();
      const page = await open(context, server, "runs");
      await sees(page, "No runs yet");
      await page.evaluate(() => (window.sameDocument = true));
      const began = Date.now();
      await server.stop();
      await page.locator(".banner", { hasText: "does not answer" }).waitFor();
      ok(Date.now() - began < 3_000, `said after ${Date.now() - began} ms`);
      await server.boot();
      await page.locator(".banner").waitFor({ state: "detached" });
      await server.start("listen", "new-1");
      await sees(page, "new-1", ".runs-table");
      equal(await page.evaluate(() => window.sameDocument), true, "no reload");
      await context.close();
      await server.stop();
    },

    async a_server_that_hangs_is_said_within_three_seconds() {
      const server = await Server.start();
      const context = await chrome.newContext();
      const page = await open(context, server, "runs");
      await sees(page, "No runs yet");
      server.process.kill("SIGSTOP");
      await go(page, "failures");
      const began = Date.now();
      await page.locator(".banner", { hasText: "has not answered" }).waitFor();
      ok(Date.now() - began < 3_000, `said after ${Date.now() - began} ms`);
      server.process.kill("SIGCONT");
      await sees(page, "No failed or parked runs");
      await page.locator(".banner").waitFor({ state: "detached" });
      await context.close();
      await server.stop();
    },

    async a_page_opened_without_a_server_waits_for_it() {
      const server = await Server.start();
      const context = await chrome.newContext();
      const page = await open(context, server, "runs");
      await sees(page, "No runs yet");
      await server.stop();
      await go(page, "queues");
      await page.locator(".banner", { hasText: "does not answer" }).waitFor();
      await server.boot();
      await sees(page, "No locks", ".card");
      await page.locator(".banner").waitFor({ state: "detached" });
      await context.close();
      await server.stop();
    },
  };
}
