// hello again, with the official FDK for Node.
const fdk = require("@fnproject/fdk");

fdk.handle((input) => ({ message: `Hello ${input?.name || "World"}` }));
