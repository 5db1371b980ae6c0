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
  },
  setup: {
    title: "Set up Muster",
    lead: "Create the first administrator.",
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
} as const;
