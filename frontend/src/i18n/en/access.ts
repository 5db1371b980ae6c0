/** Signing in, and the first start. */
export const access = {
  auth: {
    signIn: "Sign in",
    signOut: "Sign out",
    signingIn: "Signing in",
    username: "Username",
    password: "Password",
    showPassword: "Show or hide the password",
    forgot: "Sign in without a password",
    forgotHere: "Run this command on this machine. It prints a token that signs an administrator in once.",
    forgotAsk:
      "An administrator can run this command on the server. It prints a token for one sign-in; --user names the user.",
    once: "One-time token",
    onceHint: "You can paste the whole link.",
    useOnce: "Sign in with the token",
    onceFailed: "This sign-in link has expired or was already used.",
    code: "Code",
    codeHint: "From your authenticator app, or one of your recovery codes.",
    device: "Sign in a command line",
    withProvider: "Sign in with {{provider}}",
    withPassword: "Sign in with a password",
    providerFailed: "You are not signed in.",
    problem: {
      canceled: "You canceled the sign-in.",
      expired: "The sign-in took too long, or began in another browser. Try again.",
      away: "{{provider}} cannot be reached. Try again later, or sign in with a password.",
      failed:
        "The response of {{provider}} could not be verified. An administrator can find the reason in the audit log.",
      refused:
        "{{provider}} does not allow you to sign in here. An administrator can find the reason in the audit log.",
      name_taken:
        "There is already an account with your name. If it is yours, sign in with its password and connect it under Settings, Profile.",
      identity_taken: "You are connected to another account already. Sign in with {{provider}} to use that one.",
    },
  },
  setup: {
    title: "Set up Muster",
    lead: "Create the first administrator.",
    kept: "Logs and metrics are kept forever unless this server is set otherwise: see Settings, Retention.",
    token: "Setup token",
    tokenHint: "The server prints a link with this token when it first starts. You can paste the whole link.",
    command: "To print a new token, run this command on the server:",
    passwordRule: "At least {{n}} characters.",
    tooShort: "Use at least {{n}} characters.",
    again: "Repeat password",
    differs: "The passwords do not match.",
    create: "Create administrator",
    done: "Muster is already set up.",
  },
  invitation: {
    title: "Choose your password",
    accept: "Create account",
    noLink: "Open the whole link of your invitation",
    noLinkHint: "The end of the address is missing. If you have opened the link already, open it once more.",
  },
} as const;
