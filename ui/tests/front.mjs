// The built files with the headers of the server, in front of its routes.
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { join } from "node:path";

const KINDS = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'";

export class Front {
  /** Returns the address of the page. */
  static async start(folder, port) {
    const server = createServer((incoming, outgoing) => {
      const path = new URL(incoming.url, "http://x").pathname;
      const isPage = !path.startsWith("/v1/") && !path.startsWith("/assets/") && incoming.headers.accept?.includes("text/html");
      const name = isPage ? "index.html" : path.slice(1);
      const kind = KINDS[name.split(".").pop()];
      if (incoming.method === "GET" && kind && !path.startsWith("/v1/")) {
        try {
          const plain = readFileSync(join(folder, name));
          let body = plain;
          const headers = { "content-type": kind, "content-security-policy": POLICY };
          if (plain.length > 600) {
            body = readFileSync(join(folder, `${name}.gz`));
            headers["content-encoding"] = "gzip";
          }
          outgoing.writeHead(200, { ...headers, "content-length": body.length }).end(body);
        } catch {
          outgoing.writeHead(404).end();
        }
        return;
      }
      const headers = { ...incoming.headers, host: `127.0.0.1:${port}` };
      delete headers.origin;
      delete headers.referer;
      for (const one of Object.keys(headers)) if (one.startsWith("sec-")) delete headers[one];
      const onward = request({ port, host: "127.0.0.1", method: incoming.method, path: incoming.url, headers }, (reply) => {
        outgoing.writeHead(reply.statusCode, reply.headers);
        outgoing.flushHeaders();
        reply.pipe(outgoing);
        reply.on("error", () => outgoing.destroy());
      });
      // A server that is gone looks the same from here: the connection ends.
      onward.on("error", () => outgoing.destroy());
      outgoing.on("close", () => onward.destroy());
      incoming.pipe(onward);
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    server.unref();
    return `http://127.0.0.1:${server.address().port}`;
  }
}
