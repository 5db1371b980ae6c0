// A certified OpenID provider for browser tests: node certified_provider.mjs MODULES PORT MUSTER ACCOUNTS
// ACCOUNTS is a JSON file, {subject: claims}, which is read again for every answer.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, port, muster, accounts] = process.argv.slice(2);
const { Provider } = createRequire(`${modules}/`)("oidc-provider");

const provider = new Provider(`http://localhost:${port}`, {
  clients: [
    {
      client_id: "muster",
      client_secret: "s3cret",
      redirect_uris: [`${muster}/api/v1/auth/oidc/callback`],
      post_logout_redirect_uris: [`${muster}/sign-in`],
      grant_types: ["authorization_code", "refresh_token"],
    },
  ],
  scopes: ["openid", "offline_access", "profile", "email", "groups"],
  claims: { openid: ["sub"], profile: ["preferred_username"], email: ["email"], groups: ["groups"] },
  findAccount: (_, sub) => {
    const claims = JSON.parse(readFileSync(accounts, "utf-8"))[sub];
    return claims && { accountId: sub, claims: () => ({ sub, ...claims }) };
  },
  issueRefreshToken: () => true,
  cookies: { keys: ["for tests alone"] },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
