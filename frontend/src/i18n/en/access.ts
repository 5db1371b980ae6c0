/** Signing in, and the first start. */
export const access = {
  auth: {
    signIn: "Sign in",
    signOut: "Sign out",
    signingIn: "Signing in",
    username: "User name",
    password: "Password",
    showPassword: "Show or hide the password",
    forgot: "Forgot the password? An administrator can run muster-server sign-in-token on the server.",
    onceFailed: "This sign-in link no longer works.",
  },
  setup: {
    title: "Set up Muster",
    lead: "Create the first administrator.",
    token: "Set-up token",
    tokenHint: "The server prints it, in a link, at its first start. You can paste the whole link.",
    command: "To print a new token, run this where the server runs:",
    passwordRule: "At least {{n}} characters.",
    tooShort: "Use at least {{n}} characters.",
    again: "Password again",
    differs: "The two passwords differ.",
    create: "Create administrator",
    done: "Muster is already set up.",
  },
} as const;
