// The official FDK for Node. The header Case says what to do with a body; without it, it comes back.
const http = require("http");
const { randomUUID } = require("crypto");
const IDLE_MS = 1000; // of a connection between two calls, for which the FDK has no limit
const create = http.createServer;
http.createServer = (...how) => Object.defineProperty(create(...how), "keepAliveTimeout", { get: () => IDLE_MS, set() {} });

const fdk = require("@fnproject/fdk");
const instance = randomUUID(); // one container is told from another by it

fdk.handle((body, ctx) => {
  switch (ctx.getHeader("Case")) {
    case "hello":
      return { message: `Hello ${JSON.parse(body).name}`, instance };
    case "error":
      throw new Error("went wrong");
    default:
      ctx.responseContentType = ctx.contentType;
      return fdk.rawResult(body);
  }
}, { inputMode: "buffer" });
