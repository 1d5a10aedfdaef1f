import { defineConfig } from "vite";

// The development server forwards the API to a `goldseam serve` on its usual port.
const server = "http://127.0.0.1:" + (process.env.GOLDSEAM_PORT ?? "7733");
const forward = { target: server, changeOrigin: true, configure: (proxy: any) => proxy.on("proxyReq", (request: any) => request.removeHeader("origin")) };

export default defineConfig({
  build: {
    target: "es2022",
    outDir: process.env.GOLDSEAM_UI_OUT ?? "build",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    sourcemap: false,
  },
  server: { host: "127.0.0.1", port: 5173, proxy: { "/v1": forward, "/metrics": forward } },
});
