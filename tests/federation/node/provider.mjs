// node oidc-provider with the clients and keys of its first argument, a JSON object; prints its port when it listens.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const { port, jwks, clients } = JSON.parse(process.argv[2]);

const server = createServer();
server.listen(port, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients,
    jwks,
    claims: { email: ["email", "email_verified"] },
    cookies: { keys: ["a key of the cookies of this test"] },
    features: { jwtUserinfo: { enabled: true } },
    enabledJWA: {
      idTokenSigningAlgValues: ["RS256", "PS256", "ES256", "HS256"],
      userinfoSigningAlgValues: ["RS256", "PS256", "ES256", "HS256"],
    },
    findAccount: (_context, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true }),
    }),
  });
  server.on("request", provider.callback());
  console.log(server.address().port);
});
